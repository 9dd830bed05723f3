"""Mistakes of functions that work in place, recognized by what is in the tensor afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from course_lib.checks import mistakes
from course_lib.checks.exercise_03.traffic import whole_tensors
from course_lib.checks.part import Compared, Recognizer
from course_lib.checks.values import Tensor, agree, numbers_agree

_NEAR = 0.01  # relative: no other mistake comes as near as rounding


def recognizers(halves: int) -> Sequence[Recognizer]:
    """Those that need no look at whose inputs are where."""
    return (
        mistakes.not_waited_for,
        mistakes.touched_under_way,
        _in_a_new_tensor,
        _not_written_back,
        _unchanged,
        _mean,
        whole_tensors(halves),
        mistakes.form_changed,
    )


def recognizers_of_numbers() -> Sequence[Recognizer]:
    """Those for cases that do not say whose inputs are where."""
    return (mistakes.numbers_reordered, _tail, _bits_differ, _rounded)


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
    pairs = [(got, expected) for got, expected in _numbers(wrong, rank) if expected is not None]
    means = (got == expected // wrong.ranks or isclose(got * wrong.ranks, expected, rel_tol=_NEAR)
             for got, expected in pairs)  # fmt: skip
    return any(expected for _, expected in pairs) and all(means)


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
    even = len(pairs) - len(pairs) % wrong.ranks
    as_before = [got for got, _ in pairs[even:]] == list(given[even:])
    return even < len(pairs) and as_before and all(numbers_agree(*pair) for pair in pairs[:even])


def _bits_differ(wrong: Compared) -> str | None:
    if wrong.ranks_apart:
        return (
            "All sums are right but for rounding, and the ranks' last bits differ: replicas would drift "
            "apart. Each sum is to be made once, on its way around, and then copied."
        )
    return None


def _rounded(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        for got, expected in _numbers(wrong, rank):
            if expected is not None and not isclose(got, expected, rel_tol=_NEAR, abs_tol=_NEAR):
                return None
    return "The numbers are near, but digits are lost: elements are sent and added in the tensor's own dtype."


def _tensor(wrong: Compared, rank: int) -> Tensor:
    return wrong.case.arguments[rank][0]


def _numbers(wrong: Compared, rank: int) -> list[tuple]:
    """What came beside what was expected; nothing where the form is another."""
    got, expected = wrong.got(rank), wrong.expected(rank)
    if not isinstance(got, Tensor) or (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return []
    return list(zip(got.numbers, expected.numbers, strict=True))
