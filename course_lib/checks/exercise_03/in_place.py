"""What a learner reads of a ring that works in place on one tensor, where it goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from course_lib.checks import in_place, mistakes
from course_lib.checks.exercise_03.traffic import whole_tensors
from course_lib.checks.in_place import NEAR, is_unchanged, numbers
from course_lib.checks.part import Compared, Recognizer
from course_lib.checks.values import Tensor, is_large, numbers_agree

_in_a_new_tensor = in_place.returned(
    "The result is returned in a new tensor, and the tensor that was given is as before: it is to be made in "
    "place."
)
_not_written_back = in_place.not_written_back(
    "The tensor is as before. Its numbers do not lie in one piece, so `contiguous`, `reshape` and `flatten` "
    "give a copy: what is in the copy at the end has to be written back."
)


def recognizers() -> Sequence[Recognizer]:
    """Those that come before a look at whose inputs are where."""
    return (
        mistakes.collective_called,
        mistakes.not_waited_for,
        mistakes.touched_under_way,
        mistakes.argument_moved,
        _in_a_new_tensor,
        _not_written_back,
        _unchanged,
        in_place.mean,
        mistakes.form_changed,
    )


def recognizers_of_numbers(halves: int) -> Sequence[Recognizer]:
    """Those that come after it, or for cases that do not say whose inputs are where."""
    return (whole_tensors(halves), mistakes.numbers_reordered, _tail, _bits_differ, _rounded, _cut_otherwise)


def _unchanged(wrong: Compared) -> str | None:
    if not is_unchanged(wrong):
        return None
    if len(wrong.wrong_ranks) < wrong.ranks:
        return "Some ranks have the result, and on others the tensor is as before: all have to keep it."
    if wrong.ranks > 1 and not any(wrong.played[rank].messages for rank in wrong.wrong_ranks):
        return "No message was sent, and the tensor is as before."
    return (
        "The tensor is as before: what arrives has no effect on it. Look at what is sent (is it zeros?), "
        "and at where it is added or put."
    )


def _tail(wrong: Compared) -> str | None:
    """Only what is left over when the tensor is cut into N equal pieces is wrong."""
    if all(_is_tail(wrong, rank) for rank in wrong.wrong_ranks):
        return (
            "Only the last elements are as before, those that are left over when the tensor is cut into N "
            "equal pieces: the chunks must hold all elements."
        )
    return None


def _is_tail(wrong: Compared, rank: int) -> bool:
    pairs, given = numbers(wrong, rank), _tensor(wrong, rank).numbers
    even = 0 if is_large(_tensor(wrong, rank).shape) else len(pairs) - len(pairs) % wrong.ranks
    as_before = [got for got, _ in pairs[even:]] == list(given[even:])
    is_short = 0 < len(pairs) - even < wrong.ranks
    return is_short and as_before and all(numbers_agree(*pair) for pair in pairs[:even])


def _bits_differ(wrong: Compared) -> str | None:
    if wrong.is_right_but_apart:
        return (
            "All sums are right but for rounding, and the ranks' last bits differ: replicas would drift "
            "apart. Each sum is to be made once, on its way around, and then copied."
        )
    return None


def _rounded(wrong: Compared) -> str | None:
    pairs = [pair for rank in wrong.wrong_ranks for pair in numbers(wrong, rank)]
    pairs = [pair for pair in pairs if not numbers_agree(*pair)]
    if pairs and all(isclose(*pair, rel_tol=NEAR, abs_tol=NEAR) for pair in pairs):
        return "The numbers are near, but digits are lost: send and add elements in the tensor's own dtype."
    return None


def _cut_otherwise(wrong: Compared) -> str | None:
    """Seen where a case whose elements can be cut into equal chunks is right."""
    pairs = [pair for rank in range(wrong.ranks) for pair in numbers(wrong, rank) if pair[1] is not None]
    agreeing = sum(numbers_agree(*pair) for pair in pairs)
    if pairs and len(_tensor(wrong, 0).numbers) % wrong.ranks and 2 * agreeing >= len(pairs):
        return (
            "Most elements are right, and those at the ends of chunks are not. Chunk r is what "
            "`tensor_split(N)` makes it: where the elements do not come out even, the first chunks are "
            "longer by one."
        )
    return None


def _tensor(wrong: Compared, rank: int) -> Tensor:
    return wrong.case.arguments[rank][0]
