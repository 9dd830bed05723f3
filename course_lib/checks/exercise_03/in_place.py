"""Mistakes of functions that work in place, recognized by what is in the tensor afterwards."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import isclose

from course_lib.checks import mistakes
from course_lib.checks.exercise_03.traffic import whole_tensors
from course_lib.checks.part import Compared, Recognizer
from course_lib.checks.values import Tensor, agree, is_large, numbers_agree

_NEAR = 0.01  # relative: no other mistake comes as near as rounding


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
        _mean,
        mistakes.form_changed,
    )


def recognizers_of_numbers(halves: int) -> Sequence[Recognizer]:
    """Those that come after it, or for cases that do not say whose inputs are where."""
    return (whole_tensors(halves), mistakes.numbers_reordered, _tail, _bits_differ, _rounded, _cut_otherwise)


def _is_unchanged(wrong: Compared) -> bool:
    return all(wrong.played[rank].arguments == wrong.case.arguments[rank] for rank in wrong.wrong_ranks)


def _in_a_new_tensor(wrong: Compared) -> str | None:
    returned = (agree(wrong.played[rank].value, wrong.expected(rank)) for rank in wrong.wrong_ranks)
    if _is_unchanged(wrong) and all(returned):
        return (
            "The result is returned in a new tensor, and the tensor that was given is as before: it is to "
            "be made in place."
        )
    return None


def _not_written_back(wrong: Compared) -> str | None:
    if _is_unchanged(wrong) and _tensor(wrong, 0).layout != "contiguous":
        return (
            "The tensor is as before. Its numbers do not lie in one piece, so `contiguous`, `reshape` and "
            "`flatten` give a copy: what is in the copy at the end has to be written back."
        )
    return None


def _unchanged(wrong: Compared) -> str | None:
    if not _is_unchanged(wrong):
        return None
    if len(wrong.wrong_ranks) < wrong.ranks:
        return "Some ranks have the result, and on others the tensor is as before: all have to keep it."
    if wrong.ranks > 1 and not any(wrong.played[rank].messages for rank in wrong.wrong_ranks):
        return "No message was sent, and the tensor is as before."
    return (
        "The tensor is as before: what arrives has no effect on it. Look at what is sent (is it zeros?), "
        "and at where it is added or put."
    )


def _mean(wrong: Compared) -> str | None:
    if wrong.ranks > 1 and all(_is_mean(wrong, rank) for rank in wrong.wrong_ranks):
        return "This is the mean, and the sum is asked for: whoever wants the mean divides it by N."
    return None


def _is_mean(wrong: Compared, rank: int) -> bool:
    divide = operator.floordiv if "int" in _tensor(wrong, rank).dtype else operator.truediv
    pairs = [
        (got, divide(expected, wrong.ranks))
        for got, expected in _numbers(wrong, rank)
        if expected is not None
    ]  # fmt: skip
    return any(mean for _, mean in pairs) and all(isclose(*pair, rel_tol=_NEAR) for pair in pairs)


def _tail(wrong: Compared) -> str | None:
    """Only what is left over when the tensor is cut into N equal pieces is wrong."""
    if all(_is_tail(wrong, rank) for rank in wrong.wrong_ranks):
        return (
            "Only the last elements are as before, those that are left over when the tensor is cut into N "
            "equal pieces: the chunks must hold all elements."
        )
    return None


def _is_tail(wrong: Compared, rank: int) -> bool:
    pairs, given = _numbers(wrong, rank), _tensor(wrong, rank).numbers
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
    pairs = [pair for rank in wrong.wrong_ranks for pair in _numbers(wrong, rank)]
    pairs = [pair for pair in pairs if not numbers_agree(*pair)]
    if pairs and all(isclose(*pair, rel_tol=_NEAR, abs_tol=_NEAR) for pair in pairs):
        return "The numbers are near, but digits are lost: send and add elements in the tensor's own dtype."
    return None


def _cut_otherwise(wrong: Compared) -> str | None:
    """Seen where a case whose elements can be cut into equal chunks is right."""
    pairs = [pair for rank in range(wrong.ranks) for pair in _numbers(wrong, rank) if pair[1] is not None]
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


def _numbers(wrong: Compared, rank: int) -> list[tuple]:
    """What came beside what was expected; nothing where the form is another."""
    got, expected = wrong.got(rank), wrong.expected(rank)
    if not isinstance(got, Tensor) or (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return []
    return list(zip(got.numbers, expected.numbers, strict=True))
