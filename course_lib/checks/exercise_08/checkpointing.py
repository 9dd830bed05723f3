"""Part 5: how often to write a checkpoint, and what share of the time is lost with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from course_lib.checks import mistakes
from course_lib.checks.given import as_it_is
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Attempt, Case, Compared, Part

ARGUMENTS = (as_it_is,) * 4

_HOUR = 3600.0
_SECRET = (110.0, 61_000.0, 3072, 23.66)
# seconds to write, hours between two failures of one GPU, GPUs, seconds of a step
_SITUATIONS = (
    (60.0, 5.0, 1, 12.0),
    # Llama 3 405B: 466 interruptions in 54 days on 16,384 GPUs.
    (60.0, 45_565.0, 16_384, 6.3),
    (30.0, 40_000.0, 64, 0.75),
    (15.0, 9_000.0, 8, 4.2),
    (5.0, 20_000.0, 100_000, 120.0),
    _SECRET,
)


def _draw(_: int) -> list[Case]:
    return [_case(situation) for situation in _SITUATIONS]


def _case(situation: tuple) -> Case:
    write, hours, gpus, step = situation
    title = (
        f"{gpus:,} GPU{'' if gpus == 1 else 's'}, each fails every {hours:,.0f} h, {write:g} s to write, "
        f"steps of {step:g} s"
    )
    return Case.alone(title, situation, Way()(*situation), situation == _SECRET)


# --- Right, and what mistakes look like ---

_Pair = tuple[int, float]


def _of_cluster(seconds: float, gpus: int) -> float:
    return seconds / gpus


def _young(write: float, between: float) -> float:
    return math.sqrt(2 * write * between)


def _interval(write: float, hours: float, gpus: int) -> float:
    """Young's, in seconds."""
    return _young(write, _of_cluster(hours * _HOUR, gpus))


def _lost(write: float, between: float, interval: float) -> float:
    return write / interval + interval / (2 * between)


@dataclass(frozen=True)
class Way:
    """How the two are found; what is not given is right."""

    hour: float = _HOUR
    between: Callable[[float, int], float] = _of_cluster
    best: Callable[[float, float], float] = _young
    whole: Callable[[float], int] = math.floor
    least: int = 1
    lost: Callable[[float, float, float], float] = _lost
    by_steps: bool = True  # the interval that is lost by is a whole number of steps

    def __call__(self, write: float, hours: float, gpus: int, step: float) -> _Pair:
        between = self.between(hours * self.hour, gpus)
        best = self.best(write, between)
        steps = max(self.least, self.whole(best / step))
        interval = steps * step if self.by_steps else best
        return steps, self.lost(write, between, interval)


def _no_pair(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two numbers are expected: a whole number of steps, and the share of the time that is lost."
    return None


def _not_whole(wrong: Compared) -> str | None:
    steps, expected = wrong.played[0].value[0], wrong.case.expected[0][0]
    if type(steps) is float and not steps.is_integer() and math.isclose(steps, expected, abs_tol=1):
        return "A checkpoint is written after a whole number of steps: the largest one within the interval."
    return None


def _right_steps(wrong: Compared) -> str | None:
    if wrong.played[0].value[0] == wrong.case.expected[0][0]:
        return (
            "The number of steps is right, and the share is not: w/T + T/(2M), where T is the interval of "
            "these steps, in seconds as w and M are."
        )
    return None


def _only(change: Callable[[_Pair, tuple], tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    """The right answer, changed."""
    return lambda *arguments: change(Way()(*arguments), arguments)


def _in_error(attempt: Attempt) -> str | None:
    write, hours, gpus, step = attempt.cases[0].arguments[0]
    if step > _interval(write, hours, gpus) and "ZeroDivisionError" in str(attempt.error):
        return _AT_LEAST_ONE
    return mistakes.in_error(attempt)


_AT_LEAST_ONE = "Where one step takes longer than the interval, 0 steps come out: one is the least."

CHECKPOINT_EVERY = Part(
    "checkpoint_every(write_seconds, failure_hours, gpus, step_seconds)",
    _draw,
    (
        mistakes.nothing_returned,
        _no_pair,
        mistakes.not_a_number,
        *as_if(
            "This is for a cluster that fails as seldom as one GPU. With N of them something fails N times "
            "as often.",
            Way(between=lambda seconds, gpus: seconds),
        ),
        *as_if(
            "More GPUs fail more often: the time between two failures is divided by their number, and not "
            "multiplied.",
            Way(between=lambda seconds, gpus: seconds * gpus),
        ),
        *as_if("The 2 of Young's formula is missing: T = √(2wM).",
               Way(best=lambda write, between: math.sqrt(write * between))),
        *as_if("The root is missing: T = √(2wM).", Way(best=lambda write, between: 2 * write * between)),
        *as_if(
            "Only M stands under the root: T = √(2wM) has the time to write, too.",
            Way(best=lambda write, between: math.sqrt(2 * between)),
        ),
        *as_if(
            "The hours between failures are taken as they are, and all else is in seconds.",
            Way(hour=1.0),
        ),
        *as_if("An hour has 3,600 seconds.", Way(hour=60.0)),
        *as_if(
            "This is the time between two failures itself: then half of it is lost with each of them, half "
            "of everything.",
            Way(best=lambda write, between: between),
        ),
        *as_if(
            "The number of steps is rounded up, or to the nearest one: the largest one within the interval "
            "is asked for.",
            Way(whole=math.ceil),
            Way(whole=round),
            Way(whole=lambda steps: math.floor(steps) + 1),
        ),
        *as_if(
            _AT_LEAST_ONE,
            Way(least=0, by_steps=False),
        ),
        *as_if(
            "This is the interval in seconds: how many steps are in it?",
            _only(lambda pair, arguments: (math.floor(pair[0] * arguments[3]), pair[1])),
            lambda *facts: (math.floor(_interval(*facts[:3])), Way()(*facts)[1]),
            lambda *facts: (_interval(*facts[:3]), Way()(*facts)[1]),
            lambda *facts: (_interval(*facts[:3]), Way(by_steps=False)(*facts)[1]),
        ),
        *as_if(
            "The share is that of Young's interval, before it was made a whole number of steps. Take the "
            "interval that is used.",
            Way(by_steps=False),
        ),
        *as_if(
            "A failure costs half an interval, on average: what was done since the last checkpoint. Here it "
            "costs a whole one.",
            Way(lost=lambda write, between, interval: write / interval + interval / between),
        ),
        *as_if(
            "This is what the writing costs alone: what a failure takes away comes on top.",
            Way(lost=lambda write, between, interval: write / interval),
        ),
        *as_if(
            "This is what failures take away alone: the writing comes on top.",
            Way(lost=lambda write, between, interval: interval / (2 * between)),
        ),
        *as_if(
            "These are per cent: a share of 1 is asked for.",
            Way(lost=lambda *times: 100 * _lost(*times)),
        ),
        *as_if(
            "These are the seconds that are lost in one interval: what share of the interval is that?",
            Way(lost=lambda write, between, interval: interval * _lost(write, between, interval)),
        ),
        *as_if(
            "This is what is left: the share that is lost is asked for.",
            Way(lost=lambda *times: 1 - _lost(*times)),
        ),
        *as_if(
            "The two are swapped: the number of steps comes first.",
            _only(lambda pair, arguments: pair[::-1]),
        ),
        _not_whole,
        _right_steps,
    ),
    _in_error,
    world_sizes=ONE_PROCESS,
)
