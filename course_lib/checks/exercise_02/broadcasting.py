"""Part 1: give all ranks what rank 0 has."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.exercise_02 import in_place
from course_lib.checks.exercise_02.drawing import draw
from course_lib.checks.exercise_03.tensors import Form
from course_lib.checks.in_place import given
from course_lib.checks.part import Case, Compared, Part

_NEW_LAYER: tuple[Form, ...] = (("float64", (3, 4), "contiguous"), ("float64", (3,), "contiguous"))
_NORM: tuple[Form, ...] = (
    ("float32", (4,), "contiguous"), ("float32", (4,), "contiguous"), ("int64", (), "contiguous")
)  # fmt: skip
_SCATTERED: tuple[Form, ...] = (("float32", (4, 3), "transposed"), ("int32", (2, 5), "strided"))
_EMPTY: tuple[Form, ...] = (("float32", (0, 3), "contiguous"), ("bfloat16", (2,), "contiguous"))
_ALL_KINDS: tuple[Form, ...] = (
    ("bfloat16", (3, 5), "transposed"), ("int64", (7,), "strided"),
    ("float64", (), "contiguous"), ("float32", (2, 2, 2), "contiguous"),
)  # fmt: skip
_SECRET = "four tensors of all kinds"
_SITUATIONS: dict[str, tuple[Form, ...]] = {
    "one tensor, float32": (("float32", (5,), "contiguous"),),
    "weight and bias of a linear layer, float64": _NEW_LAYER,
    "weight, running mean and counter of a norm, float32 and int64": _NORM,
    "tensors that do not lie in one piece in memory": _SCATTERED,
    "a tensor without elements, and one in bfloat16": _EMPTY,
    _SECRET: _ALL_KINDS,
}


def _draw(ranks: int) -> list[Case]:
    cases = []
    for number, (title, forms) in enumerate(_SITUATIONS.items()):
        by_form = [draw(form, ranks, f"broadcast {place}") for place, form in enumerate(forms)]
        of_ranks = [((*of_rank,),) for of_rank in zip(*by_form, strict=True)]
        late = {0: 0, 1: ranks - 1, 3: ranks // 2}.get(number)
        afterwards = (of_ranks[0],) * ranks
        cases.append(Case.in_place(
            title, tuple(of_ranks), afterwards, late_rank=late, secret=title == _SECRET
        ))  # fmt: skip
    return cases


# --- What mistakes look like ---


def _is_given(wrong: Compared, rank: int, source: int) -> bool:
    """Whether a rank has what another one was given."""
    return wrong.got(rank) == wrong.case.arguments[source][0]


def _from_another_rank(wrong: Compared) -> str | None:
    for source in range(1, wrong.ranks):
        if all(_is_given(wrong, rank, source) for rank in range(wrong.ranks)):
            return "All ranks have the same, but it is another rank's: rank 0's is asked for."
    return None


ROOT_ALTERED = "Rank 0's own tensors are changed, and they are what all others should get."


def _root_altered(wrong: Compared) -> str | None:
    return ROOT_ALTERED if 0 in wrong.wrong_ranks else None


def _first_tensor_only(wrong: Compared) -> str | None:
    first_is_right = all(wrong.got(rank)[0] == wrong.expected(rank)[0] for rank in wrong.wrong_ranks)
    rest_as_before = all(
        wrong.got(rank)[1:] == wrong.case.arguments[rank][0][1:] for rank in wrong.wrong_ranks
    )
    if first_is_right and rest_as_before and len(wrong.got(0)) > 1:
        return "Only the first of the tensors has come: all of them are asked for."
    return None


def _some_ranks_left_out(wrong: Compared) -> str | None:
    """The others are right."""
    as_before = all(_is_given(wrong, rank, rank) for rank in wrong.wrong_ranks)
    if as_before and len(wrong.wrong_ranks) < wrong.ranks - 1:
        return "Some ranks have rank 0's tensors, and others still have their own: all of them are asked for."
    return None


def _sent_too_often(found: Compared) -> str | None:
    received = sum(
        message.bytes for played in found.played for message in played.messages if message.kind == "recv"
    )
    needed = sum(tensor.nbytes for tensor in given(found, 0))
    if received > (found.ranks - 1) * needed:
        return (
            "More is sent than is needed: each rank needs rank 0's tensors once, in their own dtype, and "
            "nobody needs those of another rank."
        )
    return None


BROADCAST = Part(
    "broadcast(tensors)",
    _draw,
    (
        mistakes.not_waited_for,
        mistakes.touched_under_way,
        in_place.returned,
        _from_another_rank,
        _root_altered,
        _some_ranks_left_out,
        in_place.not_written_back,
        in_place.unchanged,
        _first_tensor_only,
        mistakes.numbers_reordered,
        in_place.digits_lost,
        in_place.reads_memory,
    ),
    mistakes.in_error,
    mistakes.first_fault(
        mistakes.collective_called,
        mistakes.touched_under_way,
        mistakes.send_not_waited_for,
        _sent_too_often,
    ),
    in_words=in_place.first_difference,
)
