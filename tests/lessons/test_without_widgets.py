"""Front ends that run nothing and know no widgets: what nbconvert's HTML shows, and with it a static view."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbconvert import HTMLExporter

from course_lib.working_copy import COURSE_ROOT

FOLDERS = (COURSE_ROOT / "notebooks", COURSE_ROOT / "exercises")
PATHS = [path for folder in FOLDERS for path in sorted(folder.glob("[0-9]*.ipynb"))]
NOTEBOOKS = {f"{path.parent.name}/{path.stem}": path for path in PATHS}
SHORT = "notebooks/03_ring_all_reduce"


@pytest.mark.parametrize("name", [
    name if name == SHORT else pytest.param(name, marks=pytest.mark.long) for name in NOTEBOOKS
])  # fmt: skip
def test_all_pictures_tables_and_folded_answers_are_there(name):
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    html, _ = HTMLExporter().from_notebook_node(notebook)
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    assert len(re.findall('<img [^>]*src="data:image/png', html)) == pictures
    assert html.count("<details") == sum(cell.source.count("<details") for cell in notebook.cells)
    assert "widget-view+json" not in html  # it would be an empty place
