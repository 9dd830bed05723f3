"""Checks functions that give floats: a result may be off by a part of itself.

Floats that are computed in another order differ in their last digits, and those of a fit in more than that.
A result that is near enough, each of its numbers, is taken for the one expected before it is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isclose
from typing import Any

from course_lib.checks import checking
from course_lib.checks.part import Attempt, Case, Part, Played
from course_lib.checks.values import agree


def check(part: Part, function: Callable, tolerance: float) -> float:
    """As ``checking.check``; numbers may be off by ``tolerance``, relative to the one expected."""
    return checking.check(part, function, lambda attempt: _taken_for_expected(attempt, tolerance))


def _taken_for_expected(attempt: Attempt, tolerance: float) -> Attempt:
    pairs = zip(attempt.cases, attempt.played, strict=False)  # nothing was played if it raised an error
    return replace(attempt, played=[_of_case(case, played, tolerance) for case, played in pairs])


def _of_case(case: Case, played: list[Played], tolerance: float) -> list[Played]:
    return [
        replace(one, value=expected) if near(one.value, expected, tolerance) else one
        for one, expected in zip(played, case.expected, strict=True)
    ]


def near(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether each number is near the expected one, and all else is as expected."""
    if isinstance(expected, tuple) and isinstance(got, tuple) and len(got) == len(expected):
        return all(near(*pair, tolerance) for pair in zip(got, expected, strict=True))
    if type(expected) is float and type(got) in (int, float):
        return isclose(got, expected, rel_tol=tolerance)
    return agree(got, expected)
