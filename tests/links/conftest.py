"""Real links are a must with COURSE_REQUIRE_LINKS=1; without, their tests skip where there are none."""

import os

import pytest

from course_lib import links


@pytest.fixture
def real_links():
    found = links.available()
    if not found.real:
        stop = pytest.fail if os.environ.get("COURSE_REQUIRE_LINKS") == "1" else pytest.skip
        stop(str(found))
