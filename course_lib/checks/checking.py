"""One line in a notebook: draw the cases, play them, judge them."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import judging, playing
from course_lib.checks.part import Attempt, Part
from course_lib.checks.report import report
from course_lib.checks.showing import show


def check(part: Part, function: Callable, taken_as: Callable[[Attempt], Attempt] | None = None) -> float:
    """Run all three steps, print what was found, and return the share that is right.

    ``taken_as`` gives what is judged in place of what was played.
    """
    if not callable(function):
        print(f"{part.example}: expected a function to check, got {function!r:.60}")
        return 0.0
    judgements = []
    for attempt in playing.attempts(part, function):
        if judging.is_not_yet(attempt):
            print(f"{part.example}: not yet. Replace `raise NotImplementedError()` by your code.")
            return 0.0
        judgements.append(judging.judge(part, taken_as(attempt) if taken_as else attempt))
    print(report(part, judgements))
    show(part, judgements)
    return judging.share(part, judgements)
