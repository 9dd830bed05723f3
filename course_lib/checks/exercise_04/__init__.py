"""Exercise 04: what an all-reduce costs, and which one to take.

    from course_lib.checks import exercise_04 as check
    check.sent_bytes(sent_bytes)

One module for each step.  Bytes are expected as a walk through the messages gives them, and seconds as the
table in the exercise gives them: not from the library's functions, which compute the same.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import tolerance
from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_04.busiest import BUSIEST_DIRECTION
from course_lib.checks.exercise_04.choosing import CHOOSE
from course_lib.checks.exercise_04.fitting import FIT_RING, TOLERANCE
from course_lib.checks.exercise_04.predicting import PREDICTED_SECONDS, ROUNDING
from course_lib.checks.exercise_04.sending import SENT_BYTES


def sent_bytes(function: Callable) -> float:
    """Check ``sent_bytes(algorithm, rank, ranks, elements, element_bytes) -> bytes``."""
    return _check(SENT_BYTES, function)


def busiest_direction(function: Callable) -> float:
    """Check ``busiest_direction(algorithm, ranks, elements, element_bytes) -> bytes``."""
    return _check(BUSIEST_DIRECTION, function)


def predicted_seconds(function: Callable) -> float:
    """Check ``predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth) -> seconds``."""
    return tolerance.check(PREDICTED_SECONDS, function, ROUNDING)


def fit_ring(function: Callable) -> float:
    """Check ``fit_ring(ranks, sizes, seconds) -> (latency, bandwidth)``."""
    return tolerance.check(FIT_RING, function, TOLERANCE)


def choose(function: Callable) -> float:
    """Check ``choose(ranks, mebibytes, microseconds, gigabits) -> (algorithm, seconds, next_seconds)``."""
    return tolerance.check(CHOOSE, function, ROUNDING)
