"""Part 2: average gradients of unequal slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from course_lib.checks import draws, mistakes
from course_lib.checks.exercise_02 import in_place
from course_lib.checks.in_place import as_if, given_back
from course_lib.checks.part import Attempt, Case, Compared, Part
from course_lib.checks.playing import is_hang
from course_lib.checks.values import Tensor

# How far a mean of numbers up to 90 may be off, or in float16 one of numbers up to 30,000.
_TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "float16": 64.0}

_Arguments = Sequence[tuple[Tensor, int]]  # gradient and number of examples, of each rank


def _draw(ranks: int) -> list[Case]:
    random = draws.random(f"average {ranks}")
    unequal, other, another = (random.sample(range(1, 20), ranks) for _ in range(3))
    with_none = [0 if ranks > 1 and rank == ranks // 2 else count for rank, count in enumerate(other)]
    secret = [0 if ranks > 2 and rank in (0, ranks - 1) else 4 * count for rank, count in enumerate(another)]
    return [
        _case("not equally many", unequal, "float64", (3, 4), late_rank=ranks // 2),
        _case("equally many", [6] * ranks, "float32", (5,)),
        _case("none on one rank" if ranks > 1 else "one rank", with_none, "float32", (7,)),
        _case("strided in memory", other, "float32", (4, 3), "strided", late_rank=0),
        _large(ranks),
        _case("any numbers", secret, "float32", (2, 3), secret=True),
    ]


def _case(
    title: str, counts: Sequence[int], dtype: str, shape: tuple[int, ...], layout: str = "contiguous", **more
) -> Case:
    random = draws.random(f"{title} {counts}")
    arguments = []
    for count in counts:
        drawn = [float(random.randint(-90, 90)) for _ in range(math.prod(shape))]
        numbers = drawn if count else [math.nan] * len(drawn)  # a mean over no examples is 0/0
        arguments.append((Tensor(dtype, shape, tuple(numbers), layout), count))
    return _of(title, arguments, **more)


def _large(ranks: int) -> Case:
    """Numbers whose mean float16 can hold, and whose sum it can't.

    Counts are powers of two, and so is their sum: then no mean is rounded, in whatever order.
    """
    counts = [4 * 2**power for power in range(ranks - 1)] + [4]
    arguments = [
        (Tensor("float16", (3,), tuple(4096.0 * (5 + (rank + place) % 3) for place in range(3))), count)
        for rank, count in enumerate(counts)
    ]
    return _of("large numbers", arguments)


def _of(title: str, arguments: _Arguments, **more) -> Case:
    gradient, _ = arguments[0]
    mean = Tensor(gradient.dtype, gradient.shape, tuple(_weighted()(arguments)[0]), gradient.layout)
    counts = ", ".join(str(count) for _, count in arguments)
    return Case.in_place(
        f"{title}: {counts} example{'' if counts == '1' else 's'}, {gradient.dtype}",
        tuple(arguments),
        tuple((mean, count) for _, count in arguments),
        tolerance=_TOLERANCES[gradient.dtype],
        **more,
    )


_Weight = Callable[[int, int, int], float]  # of a rank's gradient: its examples, all examples, N
_Divisor = Callable[[int, int, int], float]  # all examples, N, elements


def _weighted(
    weight: _Weight = lambda count, total, ranks: count,
    divisor: _Divisor = lambda total, ranks, elements: total,
) -> Callable[[_Arguments], list[list[float]]]:
    """What all ranks have after a weighted sum and a division.  Without arguments both are right."""

    def compute(arguments: _Arguments) -> list[list[float]]:
        total, ranks = sum(count for _, count in arguments), len(arguments)
        weights = [weight(count, total, ranks) for _, count in arguments]
        used = [(w, gradient.all_numbers) for w, (gradient, _) in zip(weights, arguments, strict=True) if w]
        elements = len(arguments[0][0].numbers)
        sums = [math.fsum(w * numbers[place] for w, numbers in used) for place in range(elements)]
        return [[number / divisor(total, ranks, elements) for number in sums]] * ranks

    return compute


# --- What mistakes look like ---


def _by_own_count(arguments: _Arguments) -> list[list[float]]:
    """Each rank divides the sum over all examples by its own number."""
    (sums, *_) = _weighted(divisor=lambda total, ranks, elements: 1)(arguments)
    return [[number / count if count else math.nan for number in sums] for _, count in arguments]


def _not_a_number(wrong: Compared) -> str | None:
    none = any(count == 0 for _, count in wrong.case.arguments)
    if none and any(math.isnan(number) for number in given_back(wrong, 0).all_numbers):
        return (
            "One rank has no examples, and its gradient is nan, a mean over nothing. And 0 times nan is nan: "
            "that rank has to add zeros."
        )
    return None


def _infinite(wrong: Compared) -> str | None:
    left = given_back(wrong, 0)
    if left.dtype == "float16" and not all(map(math.isfinite, left.all_numbers)):
        return (
            "Numbers have become infinite: float16 ends at 65,504. The mean is small enough, but a sum on "
            "the way to it is not: make each rank's part small before the sum."
        )
    return None


def _zeros(wrong: Compared) -> str | None:
    left = [given_back(wrong, rank) for rank in wrong.wrong_ranks]
    if not any(number for tensor in left for number in tensor.numbers):
        return "All numbers are 0: is something divided as whole numbers, by `//`?"
    return None


def _ranks_apart(found: Compared) -> str | None:
    """For ``accept``: right but for rounding."""
    first, *others = [given_back(found, rank) for rank in range(found.ranks)]
    return mistakes.LAST_BITS if any(tensor != first for tensor in others) else None


def _examples(count: int, total: int, ranks: int) -> float:
    return count


def _once(count: int, total: int, ranks: int) -> float:
    return 1


def _if_any(count: int, total: int, ranks: int) -> float:
    return 1 if count else 0


def _in_error(attempt: Attempt) -> str | None:
    if is_hang(attempt) and "did not get to what" in str(attempt.error):
        return (
            "Some ranks wait for a sum to which others do not come: every rank has to take part in it, also "
            "one without examples."
        )
    return mistakes.in_error(attempt)


_MEAN_OF_MEANS = (
    "This is the mean of the ranks' means, in which an example counts more where there are few: each mean "
    "has to count by the number of its examples."
)
_NOT_DIVIDED = "This is a sum that nobody has divided: a mean is asked for."
_TWICE = "This is divided twice: once by the number of all examples, and once more by the number of ranks."
_BY_ELEMENTS = (
    "This is divided by the number of the tensor's elements. That has nothing to do with how many there are "
    "to average over."
)

AVERAGE = Part(
    "average(gradient, examples)",
    _draw,
    (
        mistakes.not_waited_for,
        mistakes.touched_under_way,
        in_place.returned,
        in_place.not_written_back,
        in_place.unchanged,
        _infinite,
        _not_a_number,
        *as_if(_MEAN_OF_MEANS, _weighted(_once, lambda total, ranks, elements: ranks)),
        *as_if(_MEAN_OF_MEANS, _weighted(_if_any, lambda total, ranks, elements: ranks)),
        *as_if(
            _NOT_DIVIDED,
            _weighted(_examples, lambda total, ranks, elements: 1),
            _weighted(_once, lambda total, ranks, elements: 1),
        ),
        *as_if(
            _TWICE,
            _weighted(_examples, lambda total, ranks, elements: total * ranks),
            _weighted(_once, lambda total, ranks, elements: ranks**2),
        ),
        *as_if(
            _BY_ELEMENTS,
            _weighted(_examples, lambda total, ranks, elements: elements),
            _weighted(_once, lambda total, ranks, elements: elements),
        ),
        *as_if(
            "The weighted sum is divided by the number of ranks, and the weights add up to the number of all "
            "examples.",
            _weighted(_examples, lambda total, ranks, elements: ranks),
        ),
        *as_if(
            "Each rank divides by the number of its own examples: the mean is over those of all ranks.",
            _by_own_count,
        ),
        *as_if(
            "Nothing is weighted, only divided by the number of all examples: each rank's gradient is a mean "
            "already, so it has to count by the number of its examples.",
            _weighted(_once),
        ),
        _zeros,
        in_place.digits_lost,
        in_place.reads_memory,
    ),
    _in_error,
    mistakes.first_fault(mistakes.touched_under_way, mistakes.send_not_waited_for, _ranks_apart),
    in_words=in_place.first_difference,
)
