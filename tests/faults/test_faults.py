"""Each way to fail ends with the right error, names the learner's line, and loses nothing printed."""

from __future__ import annotations

import re
import time

import pytest

from course_lib import ranks
from tests.faults.scenarios import SCENARIOS, Scenario


def run(scenario: Scenario, capsys) -> str:
    """Run a scenario, check all that it promises, and return the report."""
    report = ""
    if scenario.error is None:
        results = ranks.run(scenario.function, scenario.ranks, timeout=scenario.timeout, device="cpu")
        assert scenario.result(results)
    else:
        with pytest.raises(scenario.error) as raised:
            ranks.run(scenario.function, scenario.ranks, timeout=scenario.timeout, device="cpu")
        report = str(raised.value)
    shown = capsys.readouterr()
    assert scenario.printed in shown.out
    assert shown.err == ""
    for sentence in scenario.says:
        assert sentence in report, f"{sentence!r} is missing in:\n{report}"
    assert not re.search(r"/tmp/|\bpid\b|0x[0-9a-f]{6}|Error.*gloo/|In \[", report), report
    return report


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_fault(scenario: Scenario, capsys):
    run(scenario, capsys)
    # The notebook goes on: the next call works.
    assert ranks.run(int, 2, device="cpu") == [0, 0]


@pytest.mark.long
def test_the_report_is_the_same_every_time(capsys):
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    # Ranks have met before one is killed: of one that leaves at once, others may not even have heard yet.
    for name in ("raise_on_one", "be_killed", "receive_more_than_is_sent", "skip_a_collective"):
        assert len({run(by_name[name], capsys) for _ in range(3)}) == 1


def test_no_line_is_named_where_none_is_the_learners():
    with pytest.raises(ranks.RanksHung) as raised:
        ranks.run(time.sleep, 2, 60, timeout=1, device="cpu")
    assert "0, 1  was running\n" in str(raised.value)
