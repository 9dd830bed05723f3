"""What comes back from a rank that has trained (see ``training``): judged, put into words, recognized.

A result is a tuple: the gradients with which the optimizer has stepped, each as one row; the weights at the
end; and of how many samples activations were kept at the same time at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.checks import mistakes, values
from course_lib.checks.exercise_05.problem import INPUTS
from course_lib.checks.exercise_05.simulated import Trained
from course_lib.checks.part import Case, Compared
from course_lib.checks.values import Tensor

SECRET = "(not shown in this case)"  # in place of what was expected


def case(title: str, arguments: Sequence[tuple], trained: Sequence[Trained], samples: int, **more) -> Case:
    """A case in which each rank is to end as ``trained`` says, with activations of ``samples`` samples."""
    dtype = arguments[0][0].dtype
    expected = [
        (tuple(tensor(dtype, gradient) for gradient in gradients), tensor(dtype, weights), samples)
        for gradients, weights in trained
    ]
    tolerance = 1e-5 if dtype == "float64" else 1e-4
    return Case(title, tuple(arguments), tuple(expected), tolerance=tolerance, **more)


def tensor(dtype: str, row: Sequence[float]) -> Tensor:
    return Tensor(dtype, (len(row),), tuple(row))


# --- words ---


def in_words(
    wrong: Compared, rank: int, of_third: Callable[[Any], str] | None = None
) -> tuple[str, str] | None:
    """For ``Part.in_words``: the first thing that is not as expected.

    ``of_third`` puts the third item of a result into words, where it is not a number of samples.
    """
    if unreadable(wrong):
        return None
    (got_gradients, got_weights, got_third) = wrong.got(rank)
    (gradients, weights, third) = wrong.expected(rank)
    shown = _beside if not wrong.case.secret else lambda name, expected, got: (SECRET, f"{name} {got}")
    for number, (expected, got) in enumerate(zip(gradients, got_gradients, strict=False), start=1):
        if not _agree(wrong, got, expected):
            return shown(f"optimizer step {number}: gradient", *_texts(wrong, expected, got))
    if len(got_gradients) != len(gradients):
        return shown("", *(_steps(len(each)) for each in (gradients, got_gradients)))
    if not _agree(wrong, got_weights, weights):
        return shown("weights at the end:", *_texts(wrong, weights, got_weights))
    if got_third != third:
        return shown("", *((of_third or kept)(each) for each in (third, got_third)))
    return None


def _beside(name: str, expected: str, got: str) -> tuple[str, str]:
    return f"{name} {expected}".strip(), f"{name} {got}".strip()


def _texts(wrong: Compared, expected: Tensor, got: Tensor | None) -> tuple[str, str]:
    if got is None:
        return str(expected), "None, of one parameter at least"
    return values.texts(expected, got, wrong.case.tolerance)


def _steps(count: int) -> str:
    return f"{count or 'no'} step{'' if count == 1 else 's'} of the optimizer"


def kept(samples: int) -> str:
    return f"activations of {samples} sample{'' if samples == 1 else 's'} in memory at a time"


def _agree(compared: Compared, got: Any, expected: Any) -> bool:
    return values.agree(got, expected, compared.case.tolerance)


# --- mistakes ---


@dataclass(frozen=True)
class AsIf(mistakes.AsIf):
    """Recognizes what comes out when training went as ``formula`` says, and not as was asked.

    It gets the arguments of all ranks, and gives what each rank then has.
    """

    def __call__(self, wrong: Compared) -> str | None:
        made = self.formula(wrong.case.arguments)
        as_made = all(_is_near(wrong.got(rank), made[rank], wrong) for rank in wrong.wrong_ranks)
        return self.sentence if as_made and self._differs(made, wrong) else None

    def would_be_wrong_in(self, right: Compared) -> bool:
        """Whether a right case is one that the formula would have got wrong."""
        return self._differs(self.formula(right.case.arguments), right)

    def _differs(self, made: Sequence[Trained], compared: Compared) -> bool:
        return not all(
            _is_near(compared.expected(rank), made[rank], compared) for rank in range(compared.ranks)
        )


def as_if(sentence: str, *formulas: Callable[[Sequence[tuple]], Sequence[Trained]]) -> list[AsIf]:
    """Several ways to the same mistake."""
    return [AsIf(formula, sentence) for formula in formulas]


def _is_near(result: tuple, made: Trained, compared: Compared) -> bool:
    rows, of_made = (*result[0], result[1]), (*made[0], made[1])
    return len(rows) == len(of_made) and all(
        row is not None and _rows_near(row.numbers, other, 10 * compared.case.tolerance)
        for row, other in zip(rows, of_made, strict=True)
    )


def _rows_near(row: Sequence[float], other: Sequence[float], tolerance: float) -> bool:
    """Not if there is nan: then too many mistakes look the same."""
    largest = max(1.0, *map(abs, other))
    return all(abs(one - another) <= tolerance * largest for one, another in zip(row, other, strict=True))


def unreadable(wrong: Compared) -> str | None:
    """Comes first: all others rely on the form of a result."""
    if all(_is_result(wrong.got(rank), wrong.expected(rank)) for rank in range(wrong.ranks)):
        return None
    return "What was trained can't be read: has the function replaced parts of the model or of the optimizer?"


def _is_result(got: Any, expected: tuple) -> bool:
    if type(got) is not tuple or [*map(type, got)] != [*map(type, expected)]:
        return False
    rows = [*(gradient for gradient in got[0] if gradient is not None), got[1]]
    return all(isinstance(row, Tensor) and row.shape == expected[1].shape for row in rows)


def never_stepped(wrong: Compared) -> str | None:
    without = [rank for rank in range(wrong.ranks) if not wrong.got(rank)[0]]
    if not without:
        return None
    if len(without) == wrong.ranks:
        return "The optimizer has never stepped, and the weights are as they were."
    return (
        "The optimizers of some ranks have never stepped. Nobody hands the new weights around: each rank "
        "has a copy of the model, and has to train it."
    )


def steps_each(wrong: Compared) -> str | None:
    """As many steps as there are micro-batches, which is not what was expected."""
    micro_batches = math.prod(wrong.case.arguments[0][INPUTS].shape[:-2])
    steps, expected = (len(find(wrong.wrong_ranks[0])[0]) for find in (wrong.got, wrong.expected))
    if steps == micro_batches != expected:
        return (
            "The optimizer steps after each micro-batch. Accumulating means to wait: K micro-batches are "
            "added up, and then one step is made with all of them."
        )
    return None


def no_gradient(wrong: Compared) -> str | None:
    if any(gradient is None for rank in wrong.wrong_ranks for gradient in wrong.got(rank)[0]):
        return (
            "The optimizer finds parameters without a gradient, and leaves them as they are. Either "
            "`.grad` was cleared before it stepped, or it was given what a function returns that works in "
            "place: None."
        )
    return None


def kept_too_much(wrong: Compared) -> str | None:
    """The numbers may well be right."""
    for rank in wrong.wrong_ranks:
        got, expected = wrong.got(rank), wrong.expected(rank)
        if got[2] > expected[2] and _agree(wrong, (*got[:2], *got[3:]), (*expected[:2], *expected[3:])):
            return (
                "The numbers are right, but activations stay in memory for longer than until their backward "
                "pass is done. With K micro-batches that is the memory of the large batch, and accumulation "
                "is there to do without it."
            )
    return None


def replicas_apart(wrong: Compared) -> str | None:
    """For ranks that are further apart than by rounding."""
    if wrong.is_right_but_apart:
        return None
    first, *others = (wrong.got(rank)[1] for rank in range(wrong.ranks))
    if all(_agree(wrong, other, first) for other in others):
        return None
    return (
        "The ranks end with different weights: the replicas are apart. All of them have to step with the "
        "same gradient, so nothing in it may depend on the rank when the sum has been made."
    )


def digits_lost(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        gradients, weights, _ = wrong.expected(rank)
        if not _is_near_to_a_hundredth(wrong.got(rank), (gradients, weights)):
            return None
    return (
        "The numbers are near, but digits are lost: something on the way has fewer of them than the "
        "gradients."
    )


def _is_near_to_a_hundredth(result: tuple, expected: tuple) -> bool:
    got, right = (*result[0], result[1]), (*expected[0], expected[1])
    return len(got) == len(right) and all(
        one is not None and _rows_near(one.numbers, other.numbers, 0.01)
        for one, other in zip(got, right, strict=True)
    )
