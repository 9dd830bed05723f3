"""How fast an explorer's picture follows its slider, in JupyterLab and Chromium, and where the time goes.

    python benchmarks/explorers.py

Prints medians and 95th percentiles in milliseconds; the bar is the one that the course holds itself to. A
busy machine makes all of them longer, so look at the load that is printed with them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import v4

sys.path.insert(0, str(Path(__file__).parents[1]))

from course_lib.explorers import memory_wall  # noqa: E402
from course_lib.explorers.fast_canvas import FastCanvas  # noqa: E402
from tools.clean_notebooks import KERNEL  # noqa: E402
from tools.lab_browser import chromium, jupyter_server, open_notebook  # noqa: E402
from tools.slider_to_picture import Waits, press  # noqa: E402

KEYS = 60
BAR = 100  # milliseconds, at the 95th percentile
BARE = """\
import io
import ipywidgets as widgets
from PIL import Image

def png(color):
    file = io.BytesIO()
    Image.new("RGB", (740, 500), color).save(file, "PNG")
    return file.getvalue()

pictures = [png("white"), png("black")]
slider, image = widgets.IntSlider(max=100), widgets.Image(value=pictures[0])
slider.observe(lambda change: setattr(image, "value", pictures[change.new % 2]), "value")
widgets.VBox([slider, image])"""
EXPLORER = "from course_lib.explorers.memory_wall import explorer\nexplorer()"


def stops() -> list[memory_wall.Choice]:
    """As many places of the sliders as keys are pressed."""
    return [memory_wall.Choice(10**7 + 10**10 * n, memory_wall.BY_PARAMETERS) for n in range(KEYS)]


def milliseconds(action: Callable[[memory_wall.Choice], object]) -> Waits:
    """Processor time, so that other programs count less."""
    waits = []
    for choice in stops():
        began = time.process_time()
        action(choice)
        waits.append(1000 * (time.process_time() - began))
    return Waits(waits)


def renders() -> tuple[Waits, Waits]:
    """The fast picture, and the full one that it replaces."""
    drawing = memory_wall.Drawing()
    canvas = FastCanvas(drawing.figure, drawing.changing)

    def fast(choice: memory_wall.Choice) -> None:
        drawing.show(choice)
        canvas.png()

    return milliseconds(fast), milliseconds(lambda choice: memory_wall.figure(choice)._repr_mimebundle_())


def in_the_browser(code: str) -> Waits:
    """From key to picture for the explorer that a cell with this code shows."""
    with tempfile.TemporaryDirectory(prefix="course-benchmark-") as folder:
        notebook = v4.new_notebook(cells=[v4.new_code_cell(code)], metadata={"kernelspec": KERNEL})
        nbformat.write(notebook, Path(folder, "explorer.ipynb"))
        with jupyter_server(Path(folder)) as server, chromium() as browser:
            with open_notebook(browser, server, "explorer.ipynb") as opened:
                opened.run_all()
                output = opened.page.locator(".jp-OutputArea-output")
                keys = (KEYS // 2) * ["ArrowRight", "ArrowLeft"]
                return press(opened.page, output.locator(".noUi-handle").first, output.locator("img"), keys)


def main() -> int:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    fast, full = renders()
    bare, wall = in_the_browser(BARE), in_the_browser(EXPLORER)
    rows = [
        ("processor time of a full picture", full, None),
        ("the same, fast", fast, None),
        ("in Chromium, a slider and two ready pictures", bare, None),
        ("in Chromium, the memory wall", wall, BAR),
    ]
    print(f"{KEYS} pictures each; load at the start {load:.1f} on {os.cpu_count()} cores")
    print(f"{'':<46} {'median':>9} {'p95':>9}")
    for what, waits, bar in rows:
        judged = "" if bar is None else f"   at most {bar} ms  {'ok' if waits.p95 <= bar else 'MISSED'}"
        print(f"{what:<46} {waits.median:>6.0f} ms {waits.p95:>6.0f} ms{judged}")
    return int(wall.p95 > BAR)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
