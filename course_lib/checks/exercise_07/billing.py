"""Part 6: what exposed communication costs in a whole training run."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.given import as_it_is
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Part
from course_lib.checks.tolerance import rounded

ARGUMENTS = (as_it_is,) * 5

_SECRET = (2.5e12, 610_000, 1280, 4.9, 0.27)
# tokens, tokens/s, devices, seconds of a step, exposed seconds of it
_SITUATIONS = (
    (300e9, 132_700, 1024, 11.9, 1.19),
    (300e9, 238_300, 6144, 17.6, 2.2),
    (140e9, 37_128, 8, 7.06, 0.353),
    (15e12, 16_000_000, 16_384, 3.9, 0.0),
    (10e9, 6_400, 4, 20.5, 12.3),
    _SECRET,
)


def _draw(_: int) -> list[Case]:
    return [_case(situation) for situation in _SITUATIONS]


def _case(situation: tuple) -> Case:
    tokens, rate, devices, step, exposed = situation
    title = (
        f"{tokens / 1e9:,g} billion tokens at {rate:,} a second on {devices:,} devices, "
        f"{exposed:g} of {step:g} s exposed"
    )
    return Case.alone(title, situation, _hours(*situation), situation == _SECRET)


def _hours(tokens: float, rate: float, devices: int, step: float, exposed: float) -> float:
    return _all(tokens, rate, devices) * exposed / step


def _all(tokens: float, rate: float, devices: int) -> float:
    """GPU-hours of the whole run."""
    return tokens / rate / 3600 * devices


EXPOSED_GPU_HOURS = Part(
    "exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds)",
    _draw,
    (
        mistakes.nothing_returned,
        mistakes.not_a_number,
        *as_if(
            "These are hours on the clock. All devices wait at the same time, and each of their hours is "
            "paid for.",
            lambda *a: _hours(*a) / a[2],
        ),
        *as_if(
            "The tokens per second are those of all devices together already.",
            lambda *a: _hours(*a) / a[2] ** 2,
        ),
        *as_if(
            "These are the GPU-hours of the whole run: what is exposed is a share of each step.",
            lambda *a: _all(*a[:3]),
        ),
        *as_if(
            "These are the hours in which nothing is exposed: the others are asked for.",
            lambda *a: _all(*a[:3]) * (1 - a[4] / a[3]),
        ),
        *as_if(
            "The exposed seconds are divided by the rest of the step: their share is that of the whole step.",
            lambda *a: _all(*a[:3]) * a[4] / (a[3] - a[4]),
        ),
        *as_if(
            "The exposed seconds of one step are multiplied by all hours. They are a share of the step's "
            "seconds.",
            lambda *a: _all(*a[:3]) * a[4],
        ),
        *as_if("The share is upside down: exposed over step.", lambda *a: _all(*a[:3]) * a[3] / (a[4] or 1)),
        *as_if("These are GPU-seconds: an hour has 3,600 of them.", lambda *a: 3600 * _hours(*a)),
        *as_if("These are GPU-minutes: an hour has 3,600 seconds.", lambda *a: 60 * _hours(*a)),
        *as_if("These are GPU-days: hours are asked for.", lambda *a: _hours(*a) / 24),
        rounded,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
