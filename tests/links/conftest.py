"""Real links are a must where COURSE_REQUIRE_LINKS=1 says so; elsewhere their tests are skipped, with the reason."""

import os

import pytest

from course_lib import links


@pytest.fixture
def real_links():
    found = links.available()
    if not found.real:
        stop = pytest.fail if os.environ.get("COURSE_REQUIRE_LINKS") == "1" else pytest.skip
        stop(str(found))
