"""Lesson 0 in a real JupyterLab, in a real browser: opened from a fresh working copy, and run."""

import urllib.error
import urllib.request

import pytest

from tools.lab_browser import open_notebook

pytestmark = pytest.mark.browser

LESSON = "00_start_here.ipynb"


@pytest.fixture(scope="module")
def lesson(browser, server, keep_pictures):
    with open_notebook(browser, server, LESSON) as opened:
        yield opened
        keep_pictures(opened, "00_start_here")


@pytest.fixture(scope="module")
def cells(lesson):
    """The lesson's cells after "Run All Cells"."""
    return lesson.run_all()["cells"]


def status(url):
    try:
        return urllib.request.urlopen(url, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def test_without_the_token_the_server_refuses(server):
    assert status(f"{server.url}api/contents") == 403
    assert status(f"{server.url}api/contents?token={server.token}") == 200


def test_it_runs_to_the_end_without_an_error(cells):
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [output["evalue"] for output in outputs if output["output_type"] == "error"] == []
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code" and cell["source"])


def test_the_ranks_output_and_a_plot_are_seen(cells, lesson):
    seen = lesson.outputs()
    for rank in range(2):
        assert f"rank {rank}" in seen.text
    assert seen.images >= 1


def test_nothing_pops_up_and_the_console_stays_clean(cells, lesson):
    assert lesson.dialogs() == []
    assert lesson.errors == []
