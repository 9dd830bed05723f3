"""A server, a browser and a fresh working copy for the tests of lessons as a learner sees them.

Set COURSE_PICTURES to a folder to keep pictures of each notebook, from top to bottom.
"""

import os
from pathlib import Path

import pytest

from course_lib.doctor import BROWSER_PACKAGE, find_browser
from course_lib.working_copy import write_working_copy
from tools.lab_browser import chromium, jupyter_server

ROOT = Path(__file__).parents[2]


# Of a module and not of the session: while Playwright runs, no other event loop can run in this thread.
@pytest.fixture(scope="module")
def browser():
    if find_browser() is None:
        stop = pytest.fail if os.environ.get("COURSE_REQUIRE_BROWSER") == "1" else pytest.skip
        stop(f"no Chromium or Chrome found. {BROWSER_PACKAGE}")
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def my_course(tmp_path_factory) -> Path:
    """A working copy as `course lab` writes it, untouched so far."""
    folder = tmp_path_factory.mktemp("learner") / "my_course"
    write_working_copy(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def server(my_course):
    with jupyter_server(my_course) as running:
        yield running


@pytest.fixture(scope="module")
def keep_pictures():
    """A function of an open notebook and a name: pictures go to $COURSE_PICTURES/name, if that is set."""
    folder = os.environ.get("COURSE_PICTURES")

    def keep(opened, name):
        if folder:
            opened.pictures(Path(folder, name))

    return keep
