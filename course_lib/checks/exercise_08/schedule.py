"""The learning rate of each step, and where the arguments of a case stand that say which steps there are."""

from __future__ import annotations

from course_lib.checks.exercise_05.problem import MORE

FIRST, MOST = MORE, MORE + 1  # the number of the first step, and max_norm
BEFORE = 0.35  # of the highest learning rate: what the optimizer has before anybody sets it
_WARMUP = 2  # steps


def share(step: float) -> float:
    """Of the highest learning rate, in a step from 1 on; other numbers get one as well."""
    return max(step, 0.05) / _WARMUP if step <= _WARMUP else 0.8 ** (step - _WARMUP)
