"""Part 1: the chunk that a rank sends in a step, in plain Python.

A ring in which each rank sends one chunk to the right in each of its steps, and that leaves chunk r complete
on rank r after the first half, can only be the one of the lesson.  So the table is compared as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from course_lib import ring_table
from course_lib.checks import mistakes
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part

_SIZES = (2, 3, 4, 5, 8, 7)  # the last one is secret


def tabulated(function: Any) -> Any:
    """A function of the number of ranks that calls ``function`` for each step and rank."""
    return partial(_table, function) if callable(function) else function


def _table(function: Callable, ranks: int) -> list[list[Any]]:
    """For each step the chunks that the ranks send."""
    steps = range(1, ring_table.steps(ranks) + 1)
    return [[function(rank, step, ranks) for rank in range(ranks)] for step in steps]


def _draw(_: int) -> list[Case]:
    return [
        Case.alone(
            f"{ranks} ranks, {ring_table.steps(ranks)} steps: for each step the chunks of all ranks",
            (ranks,),
            _by(lambda rank, step, ranks: rank - step)(ranks),
            secret=ranks == _SIZES[-1],
        )
        for ranks in _SIZES
    ]


def _by(formula: Callable[[int, int, int], int]) -> Callable[[int], tuple]:
    """The table of a formula, around the ring."""
    return lambda ranks: tuple(tuple(chunk % ranks for chunk in row) for row in _table(formula, ranks))


def _chunks(compared: Compared) -> list[Any]:
    rows = compared.got(0) if isinstance(compared.got(0), tuple) else ()
    return [chunk for row in rows if isinstance(row, tuple) for chunk in row]


def _nothing_returned(wrong: Compared) -> str | None:
    return "The function returns None: it needs a `return`." if None in _chunks(wrong) else None


def _no_chunk(wrong: Compared) -> str | None:
    (ranks,) = wrong.case.arguments[0]
    for chunk in _chunks(wrong):
        if type(chunk) is not int:
            return "A chunk's number is expected, an `int`."
        if chunk not in range(ranks):
            return "There is no such chunk: they go from 0 to N - 1, and after the last one comes the first."
    return None


def _first_half_right(wrong: Compared) -> str | None:
    if _is_table(wrong) and _is_first_half_right(wrong):
        return (
            "The first half is right. The second half begins with step N: which chunk is complete on a "
            "rank by then? That is the one which it sends first."
        )
    return None


def _is_first_half_right(compared: Compared) -> bool:
    (ranks,) = compared.case.arguments[0]
    return compared.got(0)[: ranks - 1] == compared.expected(0)[: ranks - 1]


def _draw_left(compared: Compared) -> tuple[str, ring_table.State] | None:
    """After the first half where that is wrong, else after both."""
    if compared.case.secret or not _is_table(compared):
        return None
    (ranks,), steps = compared.case.arguments[0], compared.got(0)
    state, last = ring_table.start(ranks), len(steps) if _is_first_half_right(compared) else ranks - 1
    for step, chunks in enumerate(steps[:last], start=1):
        state = ring_table.deliver(state, _messages(chunks, adds=step < ranks))
    return f"Computed: after step {last} of {len(steps)}, with your chunks", state


def _is_table(compared: Compared) -> bool:
    """Whether it has a chunk for each step and rank."""
    (ranks,) = compared.case.arguments[0]
    return len(_chunks(compared)) == ranks * ring_table.steps(ranks) and _no_chunk(compared) is None


def _messages(chunks: Sequence[int], adds: bool) -> list[ring_table.Message]:
    return [
        ring_table.Message(rank, (rank + 1) % len(chunks), chunk, chunk, adds)
        for rank, chunk in enumerate(chunks)
    ]


_MISTAKEN = (
    (
        lambda rank, step, ranks: rank,
        "Each rank sends the same chunk in every step, so what has arrived is never passed on: the step's "
        "number has no effect.",
    ),
    (
        lambda rank, step, ranks: step,
        "In each step all ranks send the same chunk, and the others stand still: the rank's number has no "
        "effect.",
    ),
    (
        lambda rank, step, ranks: rank - step + 1,
        "All is one step late: after the first half, rank r has the complete chunk r + 1, and it should be "
        "chunk r. Where does a chunk have to start, to end on the rank of its own number?",
    ),
    (
        lambda rank, step, ranks: rank - step - 1,
        "All is one step early: after the first half, rank r has the complete chunk r - 1, and it should "
        "be chunk r. The first step has the number 1.",
    ),
    (
        lambda rank, step, ranks: rank + step,
        "From step to step the chunks change in the wrong direction: a rank passes on what has just come "
        "from its left neighbor.",
    ),
    (
        lambda rank, step, ranks: step - rank,
        "From step to step and from rank to rank the chunks change in the wrong direction: a rank passes "
        "on what has just come from its left neighbor.",
    ),
)

CHUNK_TO_SEND = Part(
    "chunk_to_send(rank, step, ranks)",
    _draw,
    (
        _nothing_returned,
        _no_chunk,
        *(mistakes.AsIf(_by(formula), sentence) for formula, sentence in _MISTAKEN),
        _first_half_right,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
    draw_left=_draw_left,
)
