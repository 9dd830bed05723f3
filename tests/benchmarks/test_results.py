"""The table of ratios: what is measured is checked by hand, how it is judged and kept is checked here."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from course_lib.working_copy import COURSE_ROOT

sys.path.insert(0, str(COURSE_ROOT / "benchmarks"))
try:
    import certainty
    import overlap_prediction
    import results
finally:
    sys.path.pop(0)

TEXT = results.RESULTS.read_text(encoding="utf-8")
SCRIPTS = [path.name for path in sorted((COURSE_ROOT / "benchmarks").glob("*.py"))
           if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]  # fmt: skip


def test_a_row_is_held_to_its_bar():
    assert results.Row.at_most("a", 1.004, 1.0) == ("a", "1.00", "at most 1.00", False)
    assert results.Row.at_most("a", 0.051, 0.05, "{:.1%}") == ("a", "5.1%", "at most 5.0%", False)
    assert results.Row.at_most("a", 12.0, 50, "{:.1f} ms") == ("a", "12.0 ms", "at most 50.0 ms", True)
    assert results.Row.at_most("a", 12.0, None) == ("a", "12.00", "", None)


def test_the_table_says_what_missed_its_bar():
    rows = [results.Row("x", "1", "at most 2", True), results.Row("y", "3", "at most 2", False)]
    table = results.as_table({"Topic": [*rows, results.Row("z", "4")]}, 61.0)
    assert table.splitlines()[2:] == [
        "| | | Measured | Bar | |",
        "|---|---|---|---|---|",
        "| Topic | x | 1 | at most 2 | ok |",
        "|  | y | 3 | at most 2 | **missed** |",
        "|  | z | 4 |  |  |",
    ]


def test_only_the_table_is_written_anew():
    before, after = results.TABLE.sub("NEW\n", TEXT).split("NEW\n")
    assert TEXT.startswith(before) and TEXT.endswith(after)
    assert "| Measured |" not in before + after


def test_the_kept_table_has_all_topics_and_a_conclusion_of_each():
    table = results.TABLE.search(TEXT)[0]
    assert re.match(r".+ cores, .+; \d{4}-\d\d-\d\d \d\d:\d\d UTC; \d+ minutes in all\.\n", table)
    conclusions = TEXT.partition("<!-- end of table -->")[2]
    for topic in results.TOPICS:
        assert f"\n| {topic} |" in table
        assert f"\n**{topic}.**" in conclusions


@pytest.mark.parametrize(("ratios", "verdict"), [
    ([1.0] * 8, "ok"), ([0.9, 0.95, 1.0, 1.05, 1.1] * 3, "ok"), ([1.2] * 8, "!!"), ([0.8] * 8, "!!"),
    ([1.02, 1.08, 1.09, 1.1, 1.2, 1.3, 1.0, 1.09], "can't be told"),
])  # fmt: skip
def test_a_prediction_is_judged_by_the_median_and_its_error(ratios, verdict):
    assert overlap_prediction.judged(ratios) == verdict


def test_the_error_of_a_median_is_that_of_normal_samples():
    """Of 400 samples of a normal distribution of width 0.1, the median's standard error is 0.1253 / 20."""
    generator = random.Random(0)
    errors = [
        certainty.uncertainty([generator.gauss(1, 0.1) for _ in range(400)]) for _ in range(50)
    ]
    assert sum(errors) / 50 == pytest.approx(0.1 * 1.2533 / 20, rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_asked_for_help_measures_nothing(script):
    command = [sys.executable, COURSE_ROOT / "benchmarks" / script]
    helped = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=120)
    assert (helped.returncode, helped.stdout.split()[:2]) == (0, ["usage:", script])
    refused = subprocess.run([*command, "--no-such-option"], capture_output=True, text=True, timeout=120)
    assert refused.returncode == 2 and "--no-such-option" in refused.stderr
