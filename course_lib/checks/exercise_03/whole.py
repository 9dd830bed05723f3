"""Parts 4 and 5: the ring, in place on any tensor, and whether NCCL would carry it."""

from __future__ import annotations

from course_lib import ring_table
from course_lib.checks import mistakes
from course_lib.checks.exercise_03 import in_place, inputs, tensors
from course_lib.checks.exercise_03.errors import in_error
from course_lib.checks.exercise_03.traffic import in_a_ring
from course_lib.checks.part import Case, Part
from course_lib.ring_table import State

# How a tensor lies in memory has nothing to do with how many ranks there are, and many take long.
_MOST_FOR_ALL_FORMS = 5


def _draw(ranks: int) -> list[Case]:
    forms: list[tensors.Form] = [
        ("float32", (3 * ranks + 1,), "contiguous"),
        ("bfloat16", (max(1, ranks - 1),), "contiguous"),
        ("float64", (), "contiguous"),
        ("int32", (1, 0, 2), "contiguous"),
        ("int64", (5, 7), "transposed"),
        ("float32", (2, 3, 5), "strided"),
        ("float32", (257, 64), "contiguous"),
    ]
    if ranks > _MOST_FOR_ALL_FORMS:
        forms = [forms[0], forms[1], forms[5]]
    secret = ("int64", (2 * ranks + 1, 3), "contiguous")
    cases = [_case(form, ranks, late=number == len(forms) - 2) for number, form in enumerate(forms)]
    return [_traced(ranks), *cases, _rounding(ranks), _case(secret, ranks, secret=True)]


def _traced(ranks: int) -> Case:
    return inputs.traced_case(ring_table.start(ranks), [[range(ranks)] * ranks] * ranks)


def _case(form: tensors.Form, ranks: int, late: bool = False, secret: bool = False) -> Case:
    given = tensors.draw(form, ranks, "ring")
    return Case.in_place(
        tensors.title(form),
        tuple((tensor,) for tensor in given),
        ((tensors.total(given),),) * ranks,
        late_rank=ranks // 2 if late else None,
        secret=secret,
    )


def _rounding(ranks: int) -> Case:
    """With three ranks or more, another order of additions shows in the last bits."""
    given = tensors.rounding(12 * ranks + 5, ranks)
    return Case.in_place(
        f"{tensors.title(('float32', given[0].shape, 'contiguous'))} that round, the same bits on all ranks",
        tuple((tensor,) for tensor in given),
        ((tensors.total(given),),) * ranks,
        tolerance=tensors.rounding_error(ranks),
        same_on_all_ranks=True,
    )


def _missing(state: State) -> str | None:
    ranks = range(len(state))
    if all(inputs.is_complete(state, rank, chunk) for rank in ranks for chunk in ranks):
        return None
    if all(row == state[0] for row in state):
        return "All ranks hold the same, and inputs are missing in it: look at the first half."
    return "Some ranks lack what others have: look at the second half, after which all hold the same."


RING = Part(
    "ring(tensor)",
    _draw,
    (
        *in_place.recognizers(),
        *map(
            inputs.reading,
            (inputs.no_sum, inputs.nothing_left, inputs.astray, inputs.same_again, inputs.twice, _missing),
        ),
        *in_place.recognizers_of_numbers(halves=2),
    ),
    in_error,
    in_a_ring(halves=2),
    draw_left=inputs.drawn("ring"),
    in_words=inputs.in_words,
)
READY_FOR_NCCL = Part(
    "ring(tensor), with NCCL's rules",
    lambda ranks: [_traced(ranks)],
    RING.recognizers,
    in_error,
    mistakes.first_fault(mistakes.not_on_nccl, mistakes.send_not_waited_for),
    world_sizes=(2, 3, 4, 5),
    in_words=inputs.in_words,
)
