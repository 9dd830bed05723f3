"""Exercise 02: the three pieces of data parallelism, by messages between ranks.

    from course_lib.checks import exercise_02 as check
    check.star(star)

One module for each part; ``in_place`` knows what mistakes all of them share.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_02.averaging import AVERAGE
from course_lib.checks.exercise_02.broadcasting import BROADCAST
from course_lib.checks.exercise_02.star import STAR
from course_lib.checks.given import with_names


def broadcast(function: Callable) -> float:
    """Check ``broadcast(tensors)``, in place: rank 0's tensors on all ranks."""
    return _check(BROADCAST, with_names((list,), function))


def average(function: Callable) -> float:
    """Check ``average(gradient, examples)``, in place: the mean over all ranks' examples."""
    return _check(AVERAGE, function)


def star(function: Callable) -> float:
    """Check ``star(tensor)``, in place: the sum of all ranks' tensors, added up on rank 0."""
    return _check(STAR, function)
