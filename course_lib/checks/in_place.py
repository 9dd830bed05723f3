"""Mistakes of functions that work in place, recognized by what is in their first argument afterwards.

``mistakes`` has those of all functions; what an exercise alone knows of such functions is in its own
``in_place``, on top of this.  The first argument may be one tensor, or several.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, isnan

from course_lib.checks import mistakes
from course_lib.checks.part import Compared, Recognizer
from course_lib.checks.values import Tensor, agree

Numbers = Sequence[float]
NEAR = 0.01  # relative: no other mistake comes as near as rounding


def returned(sentence: str) -> Recognizer:
    """The right result, in another place."""

    def recognize(wrong: Compared) -> str | None:
        right = (agree(wrong.played[rank].value, _first(wrong.expected(rank)), wrong.case.tolerance)
                 for rank in wrong.wrong_ranks)  # fmt: skip
        return sentence if is_unchanged(wrong) and all(right) else None

    return recognize


def not_written_back(sentence: str) -> Recognizer:
    """What is in a copy of a tensor that does not lie in one piece."""

    def recognize(wrong: Compared) -> str | None:
        is_scattered = all(tensor.layout != "contiguous" for tensor in given(wrong, 0))
        return sentence if is_scattered and is_unchanged(wrong) else None

    return recognize


def mean(wrong: Compared) -> str | None:
    """For functions that sum over the ranks."""
    if wrong.ranks > 1 and all(_is_mean(wrong, rank) for rank in wrong.wrong_ranks):
        return "This is the mean, and the sum is asked for: whoever wants the mean divides it by N."
    return None


def _is_mean(wrong: Compared, rank: int) -> bool:
    divide = operator.floordiv if "int" in given(wrong, rank)[0].dtype else operator.truediv
    pairs = [
        (got, divide(expected, wrong.ranks))
        for got, expected in numbers(wrong, rank)
        if expected is not None
    ]  # fmt: skip
    return any(mean for _, mean in pairs) and all(isclose(*pair, rel_tol=NEAR) for pair in pairs)


@dataclass(frozen=True)
class AsIf(mistakes.AsIf):
    """Recognizes what is left when ``formula`` was computed, and not what was asked.

    The formula gets the arguments of all ranks, and gives the numbers that each rank then has in the first
    one.  That of ``mistakes.AsIf`` knows the arguments of its own rank only.  One rank alone tells nothing.
    """

    def __call__(self, wrong: Compared) -> str | None:
        if wrong.ranks == 1:
            return None
        made = self.formula(wrong.case.arguments)
        is_made = all(_equal(made[rank], given_back(wrong, rank).all_numbers) for rank in wrong.wrong_ranks)
        return self.sentence if is_made and _differs(made, wrong, wrong.wrong_ranks) else None

    def would_be_wrong_in(self, right: Compared) -> bool:
        """Whether a right case is one that the formula would have got wrong."""
        if self.case_by_case or right.ranks == 1:
            return False
        return _differs(self.formula(right.case.arguments), right, range(right.ranks))


def as_if(sentence: str, *formulas: Callable[[Sequence[tuple]], Sequence[Numbers]]) -> list[AsIf]:
    """Several ways to the same mistake."""
    return [AsIf(formula, sentence) for formula in formulas]


# --- arguments and results ---


def given(compared: Compared, rank: int) -> tuple[Tensor, ...]:
    """The tensors in the first argument."""
    return several(compared.case.arguments[rank][0])


def given_back(compared: Compared, rank: int) -> Tensor:
    """The first argument after the call."""
    return compared.played[rank].arguments[0]


def given_expected(compared: Compared, rank: int) -> Tensor:
    """The first argument as it is to be after the call."""
    return compared.case.expected_arguments[rank][0]


def is_unchanged(wrong: Compared) -> bool:
    """Whether all ranks that are wrong have what they were given."""
    return all(wrong.played[rank].arguments == wrong.case.arguments[rank] for rank in wrong.wrong_ranks)


def numbers(wrong: Compared, rank: int) -> list[tuple]:
    """What came beside what was expected; nothing where a tensor has another shape."""
    got, expected = (several(find(wrong, rank)) for find in (given_back, given_expected))
    if [_shape(one) for one in got] != [other.shape for other in expected]:
        return []
    return [pair for one, other in zip(got, expected, strict=True)
            for pair in zip(one.numbers, other.numbers, strict=True)]  # fmt: skip


def several(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One tensor as a tuple, too."""
    return value if isinstance(value, tuple) else (value,)


def _shape(value: object) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, Tensor) else None


def _first(value: object) -> object:
    """Of several arguments the first one: the tensor that is to be changed."""
    return value[0] if isinstance(value, tuple) and not isinstance(value[-1], Tensor) else value


def _differs(made: Sequence[Numbers], compared: Compared, ranks: Sequence[int]) -> bool:
    """Whether a formula gives something else than what is expected."""
    return any(not _equal(made[rank], given_expected(compared, rank).all_numbers) for rank in ranks)


def _equal(made: Numbers, got: Numbers) -> bool:
    return len(made) == len(got) and all(map(_near, made, got))


def _near(one: float, other: float) -> bool:
    if isnan(one) or isnan(other):
        return isnan(one) and isnan(other)
    if type(one) is int and type(other) is int:
        return one == other
    return isclose(one, other, rel_tol=1e-3, abs_tol=1e-6)
