"""Lesson 01 in JupyterLab, from a fresh working copy: it runs to the end, with pictures and explorer."""

import pytest

from tools.lab_browser import open_notebook

pytestmark = pytest.mark.browser

LESSON = "01_memory_wall.ipynb"


@pytest.fixture(scope="module")
def lesson(browser, server, keep_pictures):
    with open_notebook(browser, server, LESSON) as opened:
        yield opened
        keep_pictures(opened, "01_memory_wall")


@pytest.fixture(scope="module")
def cells(lesson):
    """The lesson's cells after "Run All Cells"."""
    return lesson.run_all()["cells"]


def test_it_runs_to_the_end_without_an_error(cells):
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [output["evalue"] for output in outputs if output["output_type"] == "error"] == []
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code" and cell["source"])


def test_the_measurement_both_pictures_and_the_explorer_are_seen(cells, lesson):
    seen = lesson.outputs()
    assert "107,814,649,856 bytes" in seen.text
    assert seen.images >= 3
    assert lesson.page.locator(".noUi-handle").count() >= 3


def test_nothing_pops_up_and_the_console_stays_clean(cells, lesson):
    assert lesson.dialogs() == []
    assert lesson.errors == []
