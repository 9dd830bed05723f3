"""Look at a notebook as JupyterLab shows it: PNG files from top to bottom, one for each screenful.

    .venv-test/bin/python tools/look.py notebooks/00_start_here.ipynb FOLDER [--run] [--dark]

Works on a copy of the notebook's folder, so nothing is changed. Without --run it shows the stored outputs.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.lab_browser import chromium, copy_of_folder, jupyter_server, open_notebook  # noqa: E402

DARK = "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("folder", type=Path, help="where the PNG files go")
    parser.add_argument("--run", action="store_true", help="run all cells first")
    parser.add_argument("--dark", action="store_true", help="in JupyterLab's dark theme")
    parser.add_argument("--width", type=int, default=1400, help="of the browser's window, in pixels")
    parser.add_argument("--height", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="course-look-") as folder:
        notebook = copy_of_folder(arguments.notebook.resolve(), Path(folder))
        return look(notebook, arguments)


def look(notebook: Path, arguments: argparse.Namespace) -> int:
    size = arguments.width, arguments.height
    with jupyter_server(notebook.parent) as server, chromium() as browser:
        with open_notebook(browser, server, notebook.name, *size) as opened:
            if arguments.dark:
                opened.page.evaluate(DARK)
            cells = (opened.run_all() if arguments.run else opened.notebook())["cells"]
            for file in opened.pictures(arguments.folder):
                print(file)
            raised = [output for cell in cells for output in cell.get("outputs", []) if "ename" in output]
            problems = opened.errors + opened.dialogs() + [f"{o['ename']}: {o['evalue']}" for o in raised]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
