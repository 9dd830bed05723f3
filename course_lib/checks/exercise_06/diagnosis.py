"""Part 5: what is wrong with three runs?"""

from __future__ import annotations

from course_lib.checks.exercise_06 import questions
from course_lib.checks.exercise_06.runs import RUNS
from course_lib.checks.part import Compared

# Each cause of the exercise's list, by its number, and what would be seen with it in any run.
_SEEN = {
    1: "then the ranks would be out of step after the first step, with all of their weights",
    2: (
        "then every rank would have the same gradient, N times too large, and the ranks would be in step; "
        "with K = 1 as well, a step would be twice as long as it should be"
    ),
    3: (
        "then every rank would have the same gradient, N times too small, and the ranks would be in step; "
        "with K = 1 as well, a step would be half as long as it should be"
    ),
    4: (
        "then all would be right with K = 1, and with larger K the ranks would go apart, in all of their "
        "weights"
    ),
    5: "then there would be one start less than buckets, and the weights of one bucket would go apart",
    6: "then sums would be made of gradients that do not belong together, or the run would be ended",
    7: "then the optimizer's step would stand before the waits",
    8: "then a wait would stand right after its start, before the next hooks",
    9: "then all starts would stand after the last hook",
    10: "then there would be as many starts as there are weights",
}
_CAUSES = {"A": 5, "B": 4, "C": 8}


def _refuted(wrong: Compared) -> str | None:
    given = wrong.got(0)
    if type(given) is not int or given not in _SEEN:
        return f"one of the numbers from 1 to {len(_SEEN)} is expected"
    return f"{_SEEN[given]}. Is that so in this run?"


CAUSES = questions.part("causes()", {name: f"run {name}" for name in RUNS}, _CAUSES, (_refuted,))
