"""Part 3: the star all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib.checks import mistakes
from course_lib.checks.exercise_02 import in_place
from course_lib.checks.exercise_02.drawing import draw
from course_lib.checks.exercise_03 import tensors
from course_lib.checks.exercise_03.tensors import Form
from course_lib.checks.in_place import as_if, given, mean
from course_lib.checks.messages import SHARED
from course_lib.checks.part import Attempt, Case, Compared, Part
from course_lib.checks.values import Tensor

_SECRET: Form = ("int64", (5, 2), "strided")
_FORMS: tuple[Form, ...] = (
    ("float32", (5,), "contiguous"),
    ("int64", (3, 4), "contiguous"),
    ("float64", (), "contiguous"),
    ("int32", (1, 0, 2), "contiguous"),
    ("bfloat16", (7,), "contiguous"),
    ("float32", (4, 3), "transposed"),
    ("float32", (2, 3, 2), "strided"),
    _SECRET,
)


def _draw(ranks: int) -> list[Case]:
    cases = [_case(form, ranks, late={0: ranks - 1, 5: 0}.get(number)) for number, form in enumerate(_FORMS)]
    return [*cases[:-1], _rounding(ranks), cases[-1]]


def _case(form: Form, ranks: int, late: int | None) -> Case:
    given = draw(form, ranks, "star")
    afterwards = ((tensors.total(given),),) * ranks
    arguments = tuple((tensor,) for tensor in given)
    return Case.in_place(
        tensors.title(form), arguments, afterwards, late_rank=late, secret=form == _SECRET
    )  # fmt: skip


def _rounding(ranks: int) -> Case:
    given = tensors.rounding(60, ranks)
    return Case.in_place(
        "float32, 60 elements that round, the same bits on all ranks",
        tuple((tensor,) for tensor in given),
        ((tensors.total(given),),) * ranks,
        tolerance=tensors.rounding_error(ranks),
        same_on_all_ranks=True,
    )


# --- What mistakes look like ---

_Given = Sequence[tuple[Tensor]]
_Formula = Callable[[_Given], list[list[float]]]


def _times(factors: Callable[[int, int], Sequence[float]]) -> _Formula:
    """What is left if rank r has the sum of all tensors, each times one of ``factors(r, N)``."""

    def compute(given: _Given) -> list[list[float]]:
        rows = [tensor.all_numbers for (tensor,) in given]
        return [
            [sum(factor * number for factor, number in zip(factors(rank, len(rows)), column, strict=True))
             for column in zip(*rows, strict=True)]
            for rank in range(len(rows))
        ]  # fmt: skip

    return compute


def _root_counts(times: int) -> _Formula:
    return _times(lambda rank, ranks: [times, *[1] * (ranks - 1)])


def _root_alone(times: Callable[[int], int]) -> _Formula:
    """Rank 0's tensor, so many times."""
    return _times(lambda rank, ranks: [times(ranks), *[0] * (ranks - 1)])


def _own_n_times(given: _Given) -> list[list[float]]:
    return [[len(given) * number for number in tensor.all_numbers] for (tensor,) in given]


def _only_on_root(wrong: Compared) -> str | None:
    as_before = all(wrong.got(rank) == wrong.case.arguments[rank][0] for rank in wrong.wrong_ranks)
    if wrong.ranks > 1 and as_before and wrong.wrong_ranks == [*range(1, wrong.ranks)]:
        return (
            "Only rank 0 has the sum. It has to come back to all others, and into the tensor that they were "
            "given."
        )
    return None


def _partial_sums(given: _Given) -> list[list[float]]:
    """Each rank gets what rank 0 has added up when it comes to it."""
    return _times(lambda rank, ranks: [int(other <= (rank or ranks - 1)) for other in range(ranks)])(given)


def _one_buffer(found: Compared) -> str | None:
    if any(message.fault == SHARED for played in found.played for message in played.messages):
        return (
            "Several messages are received into one piece of memory at the same time: each needs its own, or "
            "has to be waited for, and added, before the next is posted."
        )
    return None


def _in_error(attempt: Attempt) -> str | None:
    if "offset < this->size" in str(attempt.error):  # gloo's answer to an empty receive from anybody
        return _FROM_ANYBODY
    return mistakes.in_error(attempt)


_FROM_ANYBODY = "A receive does not say from whom. NCCL has no such receive: name the rank."

# --- What was sent ---


def _past_the_root(found: Compared) -> str | None:
    peers = {message.peer for played in found.played[1:] for message in played.messages}
    if None in peers or None in {message.peer for message in found.played[0].messages}:
        return _FROM_ANYBODY
    if found.ranks > 2 and peers - {0}:
        share = (found.ranks - 1) * _size(found)
        if all(_bytes(found, rank, "send") >= share for rank in range(found.ranks)):
            return (
                "The sums are right, but every rank sends (N-1) S bytes: in the star the others send their "
                "tensor to rank 0 only, and rank 0 sends the sum back."
            )
        return "The sums are right, but not by a star: only rank 0 exchanges messages with the others."
    return None


def _other_bytes(found: Compared) -> str | None:
    """Two ranks that both send to each other are a star as well: there the bytes alone tell."""
    share = (found.ranks - 1) * _size(found)
    if any(_bytes(found, 0, kind) != share for kind in ("send", "recv")):
        return (
            "The sums are right, but rank 0's link does not carry 2 (N-1) S bytes, (N-1) S in and as many "
            "out: each tensor goes to rank 0 once, and the sum comes back once, in the tensor's own dtype."
        )
    return None


def _everybody_adds(found: Compared) -> str | None:
    """With two ranks it shows in the order: rank 0 sends before it has received."""
    first = next((message.kind for message in found.played[0].messages if message.bytes), "recv")
    if first == "send":
        return (
            "Rank 0 sends before it has received: what it sends is no sum yet, so every rank must add up for "
            "itself. In the star rank 0 alone adds."
        )
    return None


def _bytes(found: Compared, rank: int, kind: str) -> int:
    return sum(message.bytes for message in found.played[rank].messages if message.kind == kind)


def _size(found: Compared) -> int:
    return given(found, 0)[0].nbytes


STAR = Part(
    "star(tensor)",
    _draw,
    (
        mistakes.not_waited_for,
        _one_buffer,
        mistakes.touched_under_way,
        in_place.returned,
        _only_on_root,
        in_place.not_written_back,
        in_place.unchanged,
        mean,
        *as_if(
            "Rank 0's own tensor is counted twice: either the sum begins with it, or it is added.",
            _root_counts(2),
        ),
        *as_if("Rank 0's own tensor is missing in the sum.", _root_counts(0)),
        *as_if(
            "Each rank has N times its own tensor. That is the sum only if all hold the same, and no rank "
            "knows what the others hold before it gets a message.",
            _own_n_times,
        ),
        *as_if(
            "All have rank 0's tensor, so many times: what the others have sent is not in it.",
            _root_alone(lambda ranks: 1),
            _root_alone(lambda ranks: ranks),
        ),
        *as_if(
            "The last rank's tensor is missing in the sum: there are N-1 others, 1 to N-1.",
            _times(lambda rank, ranks: [*[1] * (ranks - 1), 0]),
        ),
        *as_if(
            "Only the tensor that came last is in the sum: each has to be added before the next one comes "
            "into the same memory.",
            _times(lambda rank, ranks: [1, *[0] * (ranks - 2), 1]),
            _times(lambda rank, ranks: [*[0] * (ranks - 1), 1]),
        ),
        *as_if(
            "Rank 0 sends back what it has added so far: the sum is complete only when the tensors of all "
            "ranks have come.",
            _partial_sums,
        ),
        mistakes.ranks_apart,
        mistakes.numbers_reordered,
        in_place.digits_lost,
        in_place.reads_memory,
    ),
    _in_error,
    mistakes.first_fault(
        mistakes.collective_called,
        _one_buffer,
        mistakes.touched_under_way,
        mistakes.send_not_waited_for,
        _past_the_root,
        _other_bytes,
        _everybody_adds,
    ),
)
