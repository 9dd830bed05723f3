"""Exercise 08: all pieces together, a run that goes on, and the step of a cluster before anybody has it.

    from course_lib.checks import exercise_08 as check
    check.train(train)

One module for each part.  ``training`` and ``living`` run a learner's function in the ranks.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks.calling import in_rank
from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_08.assembling import TRAIN
from course_lib.checks.exercise_08.resuming import RUN


def train(function: Callable) -> float:
    """Check ``train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm) -> losses``."""
    return _check(TRAIN, in_rank("exercise_08.training.train", function))


def run(function: Callable) -> float:
    """Check ``run(module, optimizer, last, every, train_step, save, load)``."""
    return _check(RUN, in_rank("exercise_08.living.run", function))
