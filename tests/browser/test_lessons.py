"""Each lesson in a real JupyterLab, in a real browser: opened from a fresh working copy, and run.

Lessons are found by themselves.  What each must show is what is stored in it.
"""

import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest

from tools.lab_browser import open_notebook

pytestmark = pytest.mark.browser

# One of them in every test run; nbval runs all of them there, without a browser.
FIRST, *OTHERS = sorted(Path(__file__).parents[2].glob("notebooks/*.ipynb"))
LESSONS = [FIRST, *(pytest.param(path, marks=pytest.mark.long) for path in OTHERS)]
DIFFERS = "nbval-ignore-output"  # by machine or by run


@pytest.fixture(scope="module", params=LESSONS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture(scope="module")
def stored(path):
    """The lesson's cells as they are kept, with their outputs."""
    return nbformat.read(path, as_version=4).cells


@pytest.fixture(scope="module")
def lesson(path, browser, server, keep_pictures):
    with open_notebook(browser, server, path.name) as opened:
        yield opened
        keep_pictures(opened, path.stem)


@pytest.fixture(scope="module")
def cells(lesson):
    """The lesson's cells after "Run All Cells"."""
    return lesson.run_all()["cells"]


@pytest.fixture(scope="module")
def seen(cells, lesson):
    return lesson.outputs()


def outputs(cells, kind):
    return [each for cell in cells for each in cell.get("outputs", []) if kind in each.get("data", each)]


def status(url):
    try:
        return urllib.request.urlopen(url, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def test_without_the_token_the_server_refuses(server):
    assert status(f"{server.url}api/contents") == 403
    assert status(f"{server.url}api/contents?token={server.token}") == 200


def test_it_runs_to_the_end_without_an_error(cells):
    assert [output["evalue"] for output in outputs(cells, "evalue")] == []
    assert [output["text"] for output in outputs(cells, "text") if output["name"] == "stderr"] == []
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code" and cell["source"])


def test_what_is_printed_is_seen(stored, seen):
    printing = [cell for cell in stored if DIFFERS not in cell.metadata.get("tags", [])]
    lines = [line.strip() for output in outputs(printing, "text") for line in output.text.splitlines()]
    assert lines
    assert [line for line in lines if line not in seen.text] == []


def test_pictures_and_sliders_are_seen(stored, lesson, seen):
    assert seen.images >= len(outputs(stored, "image/png"))
    explorers = sum("explorer(" in cell.source for cell in stored)
    assert lesson.page.locator(".noUi-handle").count() >= explorers


def test_nothing_pops_up_and_the_console_stays_clean(seen, lesson):
    assert lesson.dialogs() == []
    assert lesson.errors == []
