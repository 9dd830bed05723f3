"""Parts 2 and 3: the two halves of the ring, each in place on a row of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib import ring_table
from course_lib.checks.exercise_03 import in_place, inputs, tensors
from course_lib.checks.exercise_03.errors import in_error
from course_lib.checks.exercise_03.traffic import in_a_ring
from course_lib.checks.part import Case, Part
from course_lib.checks.values import Tensor
from course_lib.ring_table import State


def _draw_reduce_scatter(ranks: int) -> list[Case]:
    """Of the chunks that are not a rank's own, nothing is expected."""
    after = [[range(ranks) if chunk == rank else None for chunk in range(ranks)] for rank in range(ranks)]
    return [inputs.traced_case(ring_table.start(ranks), after), *_rows(ranks, _summed_on_diagonal)]


def _summed_on_diagonal(rows: Sequence[Tensor]) -> list[list[float | None]]:
    numbers = tensors.total(rows).numbers
    chunks = tensors.chunks(len(numbers), len(rows))
    return [[number if place in chunk else None for place, number in enumerate(numbers)] for chunk in chunks]


def _draw_all_gather(ranks: int) -> list[Case]:
    """It begins with what a reduce-scatter leaves."""
    before = ring_table.after(ranks, ranks - 1)
    return [inputs.traced_case(before, [[range(ranks)] * ranks] * ranks), *_rows(ranks, _chunks_of_all)]


def _chunks_of_all(rows: Sequence[Tensor]) -> list[list[float | None]]:
    chunks = tensors.chunks(len(rows[0].numbers), len(rows))
    numbers = [row.numbers[place] for row, chunk in zip(rows, chunks, strict=True) for place in chunk]
    return [numbers] * len(rows)


def _rows(ranks: int, left: Callable[[Sequence[Tensor]], list[list[float | None]]]) -> list[Case]:
    """Cases of rows; ``left`` says what numbers are left on each rank."""
    counts = {"float32": 3 * ranks + 1, "int64": max(1, ranks - 1), "bfloat16": 2 * ranks, "float64": 0}
    forms = [(dtype, (count,), "contiguous") for dtype, count in counts.items()]
    forms.append(("int32", (5 * ranks + 2,), "contiguous"))
    cases = []
    for form in forms:
        rows = tensors.draw(form, ranks, "row")
        after = tuple((Tensor(form[0], form[1], tuple(numbers)),) for numbers in left(rows))
        late, secret = ranks // 2 if form is forms[0] else None, form is forms[-1]
        case = Case.in_place(
            tensors.title(form), tuple((row,) for row in rows), after, late_rank=late, secret=secret
        )
        cases.append(case)
    return cases


# --- what can be read off the picture ---


def _complete_elsewhere(state: State) -> str | None:
    ranks = range(len(state))
    for off in ranks[1:]:
        if all(inputs.is_complete(state, rank, (rank + off) % len(state)) for rank in ranks):
            return (
                f"The sums are complete, but in the wrong places: rank 0 has chunk {off}. Rank r is to "
                "have chunk r. Where does a chunk have to start, to end there?"
            )
    return None


def _missing_on_diagonal(state: State) -> str | None:
    ranks = range(len(state))
    for neighbor in (-1, 1):
        on_the_way = (set(state[(rank + neighbor) % len(state)][rank] or ()) for rank in ranks)
        if all(inputs == {*ranks} - {rank} for rank, inputs in enumerate(on_the_way)):
            return "One step is missing: the sum of chunk r has come as far as the neighbor of rank r."
    if any(len(state[rank][rank] or ()) < len(state) for rank in ranks):
        return (
            "Inputs are missing on the diagonal, in chunk r of rank r. In each step a rank passes on the "
            "chunk that has just come, with its own input added."
        )
    return None


def _added(state: State) -> str | None:
    if inputs.twice(state):
        return "What arrives is added. In this half it is complete, and takes the place of what was there."
    return None


def _overwritten(state: State) -> str | None:
    if not all(inputs.is_complete(state, rank, rank) for rank in range(len(state))):
        return (
            "Complete chunks have been overwritten: chunk r of rank r, which is complete from the start. "
            "It is what rank r sends first, and nothing is received into it."
        )
    return None


def _not_everywhere(state: State) -> str | None:
    complete = [[inputs.is_complete(state, rank, chunk) for chunk in range(len(state))]
                for rank in range(len(state))]  # fmt: skip
    if all(row.count(False) == 1 for row in complete):
        return "One step is missing: each rank still lacks one complete chunk."
    if not all(map(all, complete)):
        return (
            "Not all chunks are complete. In the first step a rank sends its own chunk, and in each later "
            "one the chunk that has just come."
        )
    return None


REDUCE_SCATTER = Part(
    "reduce_scatter(row)",
    _draw_reduce_scatter,
    (
        *in_place.recognizers(),
        *map(
            inputs.reading,
            (
                inputs.no_sum,
                inputs.nothing_left,
                inputs.astray,
                _complete_elsewhere,
                inputs.same_again,
                inputs.twice,
                _missing_on_diagonal,
            ),
        ),
        *in_place.recognizers_of_numbers(halves=1),
    ),
    in_error,
    in_a_ring(halves=1),
    draw_left=inputs.drawn("reduce_scatter"),
    in_words=inputs.in_words,
)
ALL_GATHER = Part(
    "all_gather(row)",
    _draw_all_gather,
    (
        *in_place.recognizers(),
        *map(
            inputs.reading,
            (
                inputs.no_sum,
                inputs.nothing_left,
                inputs.astray,
                _added,
                _overwritten,
                _not_everywhere,
            ),
        ),
        *in_place.recognizers_of_numbers(halves=1),
    ),
    in_error,
    in_a_ring(halves=1),
    draw_left=inputs.drawn("all_gather"),
    in_words=inputs.in_words,
)
