"""Exercise 08: all pieces together, a run that goes on, and the step of a cluster before anybody has it.

    from course_lib.checks import exercise_08 as check
    check.train(train)

One module for each part.  ``training`` and ``living`` run a learner's function in the ranks; ``assembling``
trains the same in plain Python, so that what is expected comes a second way.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import given, tolerance
from course_lib.checks.calling import in_rank
from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_08 import checkpointing, planning, predicting
from course_lib.checks.exercise_08.assembling import TRAIN
from course_lib.checks.exercise_08.checkpointing import CHECKPOINT_EVERY
from course_lib.checks.exercise_08.planning import BEST
from course_lib.checks.exercise_08.predicting import STEP_SECONDS
from course_lib.checks.exercise_08.resuming import RUN
from course_lib.checks.given import with_names


def train(function: Callable) -> float:
    """Check ``train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm) -> losses``."""
    return _check(TRAIN, in_rank("exercise_08.training.train", function))


def run(function: Callable) -> float:
    """Check ``run(module, optimizer, last, every, train_step, save, load)``."""
    return _check(RUN, in_rank("exercise_08.living.run", function))


def step_seconds(function: Callable) -> float:
    """Check ``step_seconds(work, cluster) -> seconds``."""
    return tolerance.check(STEP_SECONDS, with_names(predicting.ARGUMENTS, function), predicting.TOLERANCE)


def best(function: Callable) -> float:
    """Check ``best(configurations, model, card, critical_batch) -> (name, U)``, or None."""
    return tolerance.check(BEST, with_names(planning.ARGUMENTS, function), _ROUNDING)


def checkpoint_every(function: Callable) -> float:
    """Check ``checkpoint_every(write_seconds, failure_hours, gpus, step_seconds) -> (steps, lost)``."""
    return tolerance.check(CHECKPOINT_EVERY, with_names(checkpointing.ARGUMENTS, function), _ROUNDING)


_ROUNDING = 1e-9
_PARTS = {
    "step_seconds": (STEP_SECONDS, predicting.ARGUMENTS),
    "best": (BEST, planning.ARGUMENTS),
    "checkpoint_every": (CHECKPOINT_EVERY, checkpointing.ARGUMENTS),
}


def case(name: str, number: int) -> tuple:
    """The arguments of a case, to try a function with: number 1 is the first one that its check names.

    ``step_seconds(*check.case("step_seconds", 3))`` calls it as the check does.  Raises ValueError for an
    unknown function, or a case that there is not.
    """
    return given.case(_PARTS, name, number)
