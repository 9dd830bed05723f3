"""Mistakes of functions that work in place, recognized by what is in their tensors afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, isnan

from course_lib.checks.part import Compared, Recognizer
from course_lib.checks.values import Tensor, agree, texts

Numbers = Sequence[float]


def returned(wrong: Compared) -> str | None:
    """The right result, in another place."""
    right = (agree(wrong.played[rank].value, _first(wrong.expected(rank)), wrong.case.tolerance)
             for rank in wrong.wrong_ranks)  # fmt: skip
    if _is_unchanged(wrong) and all(right):
        return (
            "The right result is returned, and what was given is as before: it is to be changed in place, "
            "since the module's own tensors must hold the result."
        )
    return None


def not_written_back(wrong: Compared) -> str | None:
    if _is_unchanged(wrong) and all(tensor.layout != "contiguous" for tensor in given(wrong, 0)):
        return (
            "The tensor is as before. Its numbers do not lie in one piece, so `contiguous` and `reshape` "
            "give a copy: what is in the copy at the end has to be put back with `copy_`."
        )
    return None


def unchanged(wrong: Compared) -> str | None:
    """Seen only with several ranks."""
    if not _is_unchanged(wrong):
        return None
    if not any(played.messages or played.collectives for played in wrong.played):
        return "No message was sent, and what was given is as before."
    return (
        "What was given is as before. `tensor = …` gives the name to another tensor and leaves the old one "
        "as it was; `copy_`, `+=` and `recv` put numbers into it."
    )


def reads_memory(wrong: Compared) -> str | None:
    """Seen where the cases before, of tensors in one piece, are right."""
    if any(tensor.layout != "contiguous" for tensor in given(wrong, 0)):
        return (
            "Only a tensor whose numbers do not lie in one piece is wrong: torch.distributed takes one block "
            "of memory. Send and receive a `contiguous` copy, and put the result back with `copy_`."
        )
    return None


def digits_lost(wrong: Compared) -> str | None:
    pairs = [pair for rank in wrong.wrong_ranks for pair in _numbers(wrong, rank)]
    if pairs and all(isclose(got, expected, rel_tol=0.01, abs_tol=0.01) for got, expected in pairs):
        return "The numbers are near, but digits are lost: stay with the tensor's own dtype on all the way."
    return None


@dataclass(frozen=True)
class AsIf:
    """Recognizes what is left when ``formula`` was computed, and not what was asked.

    The formula gets the arguments of all ranks, and gives the numbers that each rank then has in the first
    one.  ``mistakes.AsIf`` does the same for functions that know the arguments of their own rank only.
    """

    formula: Callable[[Sequence[tuple]], Sequence[Numbers]]
    sentence: str

    def __call__(self, wrong: Compared) -> str | None:
        if wrong.ranks == 1:
            return None
        made = self.formula(wrong.case.arguments)
        got = {rank: given_back(wrong, rank) for rank in wrong.wrong_ranks}
        is_made = all(_equal(made[rank], tensor.all_numbers) for rank, tensor in got.items())
        differs = any(not _equal(made[rank], given_expected(wrong, rank).all_numbers) for rank in got)
        return self.sentence if is_made and differs else None


def as_if(sentence: str, *formulas: Callable[[Sequence[tuple]], Sequence[Numbers]]) -> list[Recognizer]:
    """Several ways to the same mistake."""
    return [AsIf(formula, sentence) for formula in formulas]


# --- words ---


def first_difference(wrong: Compared, rank: int) -> tuple[str, str] | None:
    """For ``in_words``: of several tensors, or of a tensor and a number, the first tensor that is wrong."""
    if wrong.case.secret:
        return None
    got, expected = (_several(find(wrong, rank)) for find in (given_back, given_expected))
    tolerance = wrong.case.tolerance
    for number, (right, left) in enumerate(zip(expected, got, strict=True), start=1):
        if not agree(left, right, tolerance):
            which = f"tensor {number} of {len(got)}: " if len(got) > 1 else ""
            of_right, of_left = texts(right, left, tolerance)
            return which + of_right, which + of_left
    return None


# --- arguments and results ---


def given(compared: Compared, rank: int) -> tuple[Tensor, ...]:
    """The tensors in the first argument, one or several."""
    return _several(compared.case.arguments[rank][0])


def given_back(compared: Compared, rank: int) -> Tensor:
    """The first argument after the call."""
    return compared.played[rank].arguments[0]


def given_expected(compared: Compared, rank: int) -> Tensor:
    return compared.case.expected_arguments[rank][0]


def _numbers(wrong: Compared, rank: int) -> list[tuple[float, float]]:
    """What came beside what was expected; nothing where a tensor has another form."""
    got = _several(given_back(wrong, rank))
    expected = _several(given_expected(wrong, rank))
    if [len(one.numbers) for one in got] != [len(one.numbers) for one in expected]:
        return []
    return [pair for one, other in zip(got, expected, strict=True)
            for pair in zip(one.all_numbers, other.all_numbers, strict=True)]  # fmt: skip


def _several(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_unchanged(wrong: Compared) -> bool:
    return all(wrong.played[rank].arguments == wrong.case.arguments[rank] for rank in wrong.wrong_ranks)


def _first(value: object) -> object:
    """Of several arguments the first one: the tensor that is to be changed."""
    return value[0] if isinstance(value, tuple) and not isinstance(value[-1], Tensor) else value


def _equal(made: Numbers, got: Numbers) -> bool:
    return len(made) == len(got) and all(map(_near, made, got))


def _near(one: float, other: float) -> bool:
    if isnan(one) or isnan(other):
        return isnan(one) and isnan(other)
    if type(one) is int and type(other) is int:
        return one == other
    return isclose(one, other, rel_tol=1e-3, abs_tol=1e-6)
