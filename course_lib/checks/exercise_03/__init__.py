"""Exercise 03: the ring all-reduce, from its table of chunks to one that works in place on any tensor.

    from course_lib.checks import exercise_03 as check
    check.ring(ring)

One module for each part; ``inputs`` finds out whose inputs are in what a ring has left, ``traffic`` counts
what was sent, ``tensors`` draws the cases.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_03.halves import ALL_GATHER, REDUCE_SCATTER
from course_lib.checks.exercise_03.table import CHUNK_TO_SEND, tabulated
from course_lib.checks.exercise_03.whole import READY_FOR_NCCL, RING


def chunk_to_send(function: Callable) -> float:
    """Check ``chunk_to_send(rank, step, ranks) -> chunk``."""
    return _check(CHUNK_TO_SEND, tabulated(function))


def reduce_scatter(function: Callable) -> float:
    """Check ``reduce_scatter(row)``, in place: chunk r of the sum on rank r."""
    return _check(REDUCE_SCATTER, function)


def all_gather(function: Callable) -> float:
    """Check ``all_gather(row)``, in place: chunk r of rank r on all ranks."""
    return _check(ALL_GATHER, function)


def ring(function: Callable) -> float:
    """Check ``ring(tensor)``, in place: the sum on all ranks."""
    return _check(RING, function)


def ready_for_nccl(function: Callable) -> float:
    """Check that the messages of ``ring`` get through under NCCL's rules, too."""
    return _check(READY_FOR_NCCL, function)
