"""Checks functions that give floats: a result may be off by a part of itself.

Floats that are computed in another order differ in their last digits, and those of a fit in more than that.
A result that is near enough, each of its numbers, is taken for the one expected before it is judged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isclose, isfinite
from typing import Any

from course_lib.checks import checking
from course_lib.checks.part import Attempt, Case, Compared, Part, Played
from course_lib.checks.values import agree


def check(part: Part, function: Callable, tolerance: float) -> float:
    """As ``checking.check``; numbers may be off by ``tolerance``, relative to the one expected."""
    return checking.check(part, function, lambda attempt: _taken_for_expected(attempt, tolerance))


def _taken_for_expected(attempt: Attempt, tolerance: float) -> Attempt:
    pairs = zip(attempt.cases, attempt.played, strict=False)  # nothing was played if it raised an error
    return replace(attempt, played=[_of_case(case, played, tolerance) for case, played in pairs])


def _of_case(case: Case, played: Sequence[Played], tolerance: float) -> list[Played]:
    return [
        replace(one, value=expected) if near(one.value, expected, tolerance) else one
        for one, expected in zip(played, case.expected, strict=True)
    ]


def near(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether each number is near the expected one, and all else is as expected; 25.0 will do for 25."""
    if isinstance(expected, tuple) and isinstance(got, tuple) and len(got) == len(expected):
        return all(near(*pair, tolerance) for pair in zip(got, expected, strict=True))
    if type(expected) in (int, float) and type(got) in (int, float):
        return isclose(got, expected, rel_tol=tolerance)
    return agree(got, expected)


_ROUGHLY = 1e-3
_FEW_DIGITS = 8  # a float has about 16
_LARGEST_FLOAT32 = 3e38


def rounded(wrong: Compared) -> str | None:
    """For parts that are checked here: right but for digits that somebody has cut off, or float32 has."""
    value, expected = wrong.played[0].value, wrong.case.expected[0]
    numbers = [each for each in _numbers(value) if type(each) is float]
    if near(value, expected, _ROUGHLY) and any(map(_is_coarse, numbers)):
        return (
            "This is right in its first digits only: return it as it is computed, without `round`, and "
            "compute with Python's own floats. (float32 has 7 digits.)"
        )
    return None


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for each in value:
            yield from _numbers(each)
    else:
        yield value


def _is_coarse(number: float) -> bool:
    """Whether it has few digits, or those of a float32; some numbers that are exact have so, too."""
    if not isfinite(number) or abs(number) > _LARGEST_FLOAT32:
        return False
    return number in (float(f"{number:.{_FEW_DIGITS}g}"), struct.unpack("f", struct.pack("f", number))[0])
