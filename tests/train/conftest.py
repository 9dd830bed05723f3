"""Settings of small runs, and ranks that begin quickly."""

from __future__ import annotations

import time

import pytest

from course_lib import ranks
from course_lib.train import Settings

_SECONDS_UNTIL_IDLE = 2.6


@pytest.fixture(scope="session")
def ranks_have_optimizers():
    """The server of ranks imports what optimizers need when it is idle; else each rank would, for 1 s."""
    ranks.run(_nothing, 1)
    time.sleep(_SECONDS_UNTIL_IDLE)
    ranks.run(_nothing, 1)


def _nothing():
    pass


def settings(**more):
    sizes = {"steps": 5, "batch": 13, "sequence": 16, "layers": 1, "hidden": 16, "heads": 2, "warmup": 2}
    return Settings(**{**sizes, "dtype": "float64", "utilization": False, "quiet": True, **more})
