"""200 faults in a row, drawn from the list: every message right, no process and no file left."""

from __future__ import annotations

import random

import pytest

from tests.faults.scenarios import SCENARIOS
from tests.faults.test_faults import run

DRAWS = 200


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_storm(capsys, nothing_left_check):
    draw = random.Random(0)
    storm = SCENARIOS + draw.choices(SCENARIOS, k=DRAWS - len(SCENARIOS))  # each comes up
    draw.shuffle(storm)
    for scenario in storm:
        run(scenario, capsys)
        nothing_left_check()
