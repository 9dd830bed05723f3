"""One line in a notebook: draw the cases, play them, judge them."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import judging, playing
from course_lib.checks.part import Part
from course_lib.checks.report import report


def check(part: Part, function: Callable) -> float:
    """Run all three steps, print what was found, and return the share that is right."""
    if not callable(function):
        print(f"{part.example}: expected a function to check, got {function!r:.60}")
        return 0.0
    judgements = []
    for attempt in playing.attempts(part, function):
        if judging.is_not_yet(attempt):
            print(f"{part.example}: not yet. Replace `raise NotImplementedError()` by your code.")
            return 0.0
        judgements.append(judging.judge(part, attempt))
    print(report(part, judgements))
    return judging.share(part, judgements)
