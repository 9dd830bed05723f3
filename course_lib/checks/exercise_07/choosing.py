"""Part 4: the bucket size with which a step takes least time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isclose

from course_lib.checks import given, mistakes
from course_lib.checks.exercise_07.stepping import (
    BYTES,
    LARGE,
    MODELS,
    OF_A_STEP,
    ROUNDING,
    SMALL,
    WIDE,
    WORDS,
    Step,
    in_words,
)
from course_lib.checks.given import Network, as_it_is
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.tolerance import rounded

ARGUMENTS = (given.model, given.network, list, as_it_is)

_Situation = tuple[str, Network, Sequence[float], int]  # model, network, MiB to choose from, K

_SECRET: _Situation = (WIDE, Network(512, 12, 400), (1, 25, 100, 1000), 3)
_SITUATIONS: tuple[_Situation, ...] = (
    (SMALL, Network(3, 600, 1), (1, 4, 25, 100), 1),
    (SMALL, Network(4, 50, 5), (1, 25, 100), 2),
    (BYTES, Network(8, 20, 25), (1, 5, 25, 100), 1),
    (BYTES, Network(96, 20, 100), (1, 5, 25, 100, 1000), 1),
    (WORDS, Network(64, 20, 100), (1000, 100, 25, 5), 1),
    (BYTES, Network(1536, 12, 400), (5, 25, 400), 4),
    (LARGE, Network(1536, 12, 400), (25, 100, 400, 1600, 15_000), 2),
    _SECRET,
)

_Choice = tuple[float, float]  # MiB, seconds


def _draw(_: int) -> list[Case]:
    return [_case(*situation, situation == _SECRET) for situation in _SITUATIONS]


def _case(
    model: str, network: Network, sizes: Sequence[float], micro_batches: int, secret: bool
) -> Case:
    title = f"{model}, {in_words(network)}, K = {micro_batches}"
    arguments = (tuple(MODELS[model]), tuple(network), sizes, micro_batches)
    return Case.alone(title, arguments, _best()(*arguments), secret)


def _best(step: Step = Step(), choose: Callable = min) -> Callable[..., _Choice]:  # noqa: B008
    """The size with which the step takes least, and its seconds."""

    def compute(model: tuple, network: tuple, sizes: Sequence[float], micro_batches: int) -> _Choice:
        seconds = {size: step(model, network, size, micro_batches) for size in sizes}
        size = choose(sizes, key=seconds.__getitem__)
        return size, seconds[size]

    return compute


# --- What mistakes look like ---


def _by(choose: Callable[[Sequence[float]], float]) -> Callable[..., _Choice]:
    """The answer if the sizes alone decide."""
    return _best(choose=lambda sizes, key: choose(sizes))


def _changed(change: Callable[[tuple, float, float], _Choice]) -> Callable[..., _Choice]:
    """The answer from the model, and from the right one."""
    return lambda model, *others: change(model, *_best()(model, *others))


def _number(model: tuple, network: tuple, sizes: Sequence[float], micro_batches: int) -> _Choice:
    size, seconds = _best()(model, network, sizes, micro_batches)
    return sizes.index(size), seconds


def _exposed(model: tuple, network: tuple, sizes: Sequence[float], micro_batches: int) -> _Choice:
    size, seconds = _best()(model, network, sizes, micro_batches)
    return size, seconds - micro_batches * model[-1]


def _no_choice(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two numbers are expected: one of the sizes, in MiB, and the seconds of a step with it."
    return None


def _another_size(wrong: Compared) -> str | None:
    """The right seconds, of another size."""
    model, network, sizes, micro_batches = wrong.case.arguments[0]
    size, seconds = wrong.played[0].value
    if size == wrong.case.expected[0][0] or size not in sizes:
        return None
    if isclose(seconds, Step()(model, network, size, micro_batches), rel_tol=ROUNDING):
        return "With this size a step takes that long, but with another one it takes less: compute them all."
    return None


def _other_seconds(wrong: Compared) -> str | None:
    if wrong.played[0].value[0] == wrong.case.expected[0][0]:
        return "The right size, with other seconds: check your answer to part 3."
    return None


BEST_BUCKET = Part(
    "best_bucket(model, network, sizes, micro_batches)",
    _draw,
    (
        mistakes.nothing_returned,
        _no_choice,
        mistakes.not_a_number,
        *as_if(
            "The largest size is not always best. It saves latencies, but a large bucket is complete late, "
            "and the last one goes on for long when nothing is left to hide it.",
            _by(max),
        ),
        *as_if(
            "The smallest size is not always best. Its first bucket leaves early, but each bucket pays for "
            "2 (N - 1) latencies, and the network is busy with them.",
            _by(min),
        ),
        *as_if("This is the first of the sizes: which one takes least time?", _by(lambda sizes: sizes[0])),
        *as_if("This is the last of the sizes: which one takes least time?", _by(lambda sizes: sizes[-1])),
        *as_if(
            "This is 25 MiB, the default of DistributedDataParallel. It is a compromise, and no network has "
            "been asked.",
            _by(lambda sizes: 25 if 25 in sizes else min(sizes, key=lambda size: abs(size - 25))),
        ),
        *as_if("With this size a step takes most time.", _best(choose=max)),
        *(
            each
            for sentence, steps in OF_A_STEP.items()
            for each in as_if(sentence, *map(_best, steps))
        ),
        *as_if(
            "The seconds are those that are exposed: those of the whole step are asked for, with its K "
            "passes.",
            _exposed,
        ),
        *as_if(
            "The size is in bytes: one of the sizes as they are given, in MiB, is asked for.",
            _changed(lambda model, size, seconds: (size * 2**20, seconds)),
        ),
        *as_if("This is the place in the list of sizes: the size is asked for.", _number),
        *as_if(
            "The two are swapped: the size comes first.",
            _changed(lambda model, size, seconds: (seconds, size)),
        ),
        rounded,
        _another_size,
        _other_seconds,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
