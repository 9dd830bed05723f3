"""The README's three pictures, taken in JupyterLab: cells of lessons with what they show, run here.

    make pictures        writes docs/pictures/*.png
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import nbformat

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.lab_browser import NotebookPage, chromium, jupyter_server, open_notebook  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1000, 1600


class Picture(NamedTuple):
    """Cells of a lesson, by their ids.  The last one is shown; it needs the others."""

    name: str
    lesson: str
    cells: tuple[str, ...]


PICTURES = (
    Picture("hang", "00_start_here", ("imports", "receive-first", "run-stuck")),
    Picture("ring", "03_ring_all_reduce", ("imports", "explorer")),
    Picture("timeline", "07_overlap_and_utilization", ("imports", "recorded-step", "links", "flat")),
)


def excerpt(picture: Picture) -> nbformat.NotebookNode:
    """A notebook of these cells alone, without outputs.  Raises KeyError for a cell that the lesson lacks."""
    lesson = nbformat.read(ROOT / "notebooks" / f"{picture.lesson}.ipynb", as_version=4)
    cells = {cell.id: cell for cell in lesson.cells}
    lesson.cells = [{**cells[name], "outputs": [], "execution_count": None} for name in picture.cells]
    return nbformat.from_dict(lesson)


def take(opened: NotebookPage, path: Path) -> None:
    """Run all, and keep what the last cell shows.  Raises RuntimeError where something went wrong."""
    cells = opened.run_all()["cells"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    raised = [f"{output['ename']}: {output['evalue']}" for output in outputs if "ename" in output]
    if raised + opened.errors:
        raise RuntimeError("\n".join(raised + opened.errors))
    opened.page.wait_for_timeout(1000)  # a picture is drawn in the next frames
    opened.page.locator(".jp-Notebook .jp-Cell").last.screenshot(path=path)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="course-pictures-") as folder:
        for picture in PICTURES:
            nbformat.write(excerpt(picture), Path(folder, f"{picture.name}.ipynb"))
        with jupyter_server(Path(folder)) as server, chromium() as browser:
            for name, *_ in PICTURES:
                with open_notebook(browser, server, f"{name}.ipynb", WIDTH, HEIGHT) as opened:
                    take(opened, FOLDER / f"{name}.png")
                    print(FOLDER / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
