"""Whether a mutant does what the solution does, on inputs that no check has."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import Any

from course_lib.checks.part import Attempt, Case, Compared, Part, Played
from course_lib.checks.values import Tensor

# How far two sums of the same numbers, added in another order, may be apart: relative, or to 1.
_ROUNDING = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 2e-2}
_DOUBLE = 1e-9


def difference(
    part: Part, solution: Sequence[Attempt], mutant: Sequence[Attempt], allowed: float = _DOUBLE
) -> str:
    """The first case that tells a mutant from the solution; "" if none does.

    ``allowed``: how far numbers may be apart, relative, where the exercise asks for no exact ones.

    Compared are the results, the arguments, and the way, where the part judges it.
    Raises ValueError where the solution itself does not do what is asked for.
    """
    for right, other in zip(solution, mutant, strict=True):
        if right.error is not None:
            raise ValueError(f"{part.example}: the solution fails on {right.cases[0].title}: {right.error}")
        if other.error is not None:
            return f"N={other.ranks}: {type(other.error).__name__}"
        for case, ours, theirs in zip(right.cases, right.played, other.played, strict=True):
            if found := _of_case(part, case, ours, theirs, allowed):
                return f"N={other.ranks}, {case.title}: {found}"
    return ""


def _of_case(part: Part, case: Case, ours: Sequence[Played], theirs: Sequence[Played], allowed: float) -> str:
    in_place = bool(case.expected_arguments)
    for rank, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        asked = case.expected_arguments[rank] if in_place else None
        if in_place:
            if not near(one.arguments, other.arguments, asked) or other.moved:
                return f"rank {rank} has other numbers"
        elif not near(one.value, other.value, allowed=allowed) or other.shares_memory:
            return f"rank {rank} returns something else"
        elif not near(one.arguments, other.arguments):
            return f"rank {rank} has an argument altered"
    ranks = len(case.arguments)
    if case.same_on_all_ranks and any(_seen(each, in_place) != _seen(theirs[0], in_place) for each in theirs):
        return "the ranks have not the same bits"
    if part.accept(Compared(ranks, case, ours)):
        raise ValueError(f"{part.example}: the solution is not accepted on {case.title}")
    return "in another way" if part.accept(Compared(ranks, case, theirs)) else ""


def _seen(played: Played, in_place: bool) -> Any:
    return played.arguments if in_place else played.value


def near(one: Any, other: Any, asked: Any = None, allowed: float = _DOUBLE) -> bool:
    """Whether two described values agree but for rounding; a None in ``asked``: any number will do."""
    if isinstance(one, Tensor):
        return _tensors_near(one, other, asked)
    if isinstance(one, tuple):
        each = asked if isinstance(asked, tuple) else [None] * len(one)
        return (
            isinstance(other, tuple)
            and len(one) == len(other)
            and all(near(*three, allowed) for three in zip(one, other, each, strict=True))
        )
    if type(one) is float and type(other) in (int, float):
        return isclose(one, other, rel_tol=allowed, abs_tol=1e-15) or one != one != other
    return type(one) is type(other) and one == other


def _tensors_near(one: Tensor, other: Any, asked: Tensor | None) -> bool:
    if not isinstance(other, Tensor) or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    allowed = _ROUNDING.get(one.dtype, _DOUBLE if "float" in one.dtype else 0)
    numbers = asked.numbers if asked is not None else [0] * len(one.numbers)
    return all(
        wanted is None or repr(mine) == repr(theirs) or abs(mine - theirs) <= allowed * max(1, abs(mine))
        for mine, theirs, wanted in zip(one.numbers, other.numbers, numbers, strict=True)
    )
