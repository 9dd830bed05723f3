"""Exercise 05: gradient accumulation, and the noise scale that says how far it pays.

    from course_lib.checks import exercise_05 as check
    check.train_step(train_step)

One module for each part.  ``training`` trains a small model with a learner's function, in the ranks;
``problem`` and ``simulated`` do the same in plain Python, so that what is expected comes a second way.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import tolerance
from course_lib.checks.calling import in_rank
from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_05.in_fp32 import GRADIENTS_IN_FP32
from course_lib.checks.exercise_05.noise import NOISE_SCALE
from course_lib.checks.exercise_05.problem import CROSS_ENTROPY, MSE
from course_lib.checks.exercise_05.streaming import TRAIN
from course_lib.checks.exercise_05.synchronizing import TRAIN_STEP
from course_lib.checks.exercise_05.tokens import TRAIN_STEP_BY_TOKENS
from course_lib.checks.given import as_it_is, with_names


def train(function: Callable) -> float:
    """Check ``train(module, micro_batches, accumulation_steps, loss_function, optimizer)``."""
    return _check(TRAIN, in_rank("exercise_05.training.stream", function))


def train_step(function: Callable) -> float:
    """Check ``train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm)``."""
    return _check(TRAIN_STEP, in_rank("exercise_05.training.steps", function, MSE))


def train_step_by_tokens(function: Callable) -> float:
    """Check ``train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce)``."""
    return _check(TRAIN_STEP_BY_TOKENS, in_rank("exercise_05.training.steps", function, CROSS_ENTROPY))


def gradients_in_fp32(function: Callable) -> float:
    """Check ``gradients_in_fp32(module, micro_batches, loss_function) -> gradients``."""
    return _check(GRADIENTS_IN_FP32, in_rank("exercise_05.training.in_fp32", function))


def noise_scale(function: Callable) -> float:
    """Check ``noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch) -> (|G|², tr(Σ), scale)``."""
    arguments = (list, list, as_it_is, as_it_is)
    return tolerance.check(NOISE_SCALE, with_names(arguments, function), _ROUNDING)


_ROUNDING = 1e-9
