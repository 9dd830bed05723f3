"""A jail is a must with COURSE_REQUIRE_JAIL=1; without, tests that mark skip where there is none."""

import os
from itertools import count

import pytest

from course_lib.classroom import jail
from course_lib.classroom.player import Player
from tests.classroom.learners import Learner

_numbers = count(100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))


@pytest.fixture(scope="session")
def jails():
    """Skips, or fails, without a jail."""
    refusal = jail.refusal()
    if refusal is not None:
        stop = pytest.fail if os.environ.get("COURSE_REQUIRE_JAIL") == "1" else pytest.skip
        stop(refusal)


@pytest.fixture(scope="module")
def player(jails):
    player = Player(next(_numbers))
    yield player
    player.close()


@pytest.fixture
def learner(tmp_path):
    """``learner("03")``: a learner whose answers are the solution's, until they are changed."""
    return lambda exercise: Learner(tmp_path, exercise)
