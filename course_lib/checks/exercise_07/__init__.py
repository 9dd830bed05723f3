"""Exercise 07: what overlap hides, the best bucket size for a network, and how well the hardware is used.

    from course_lib.checks import exercise_07 as check
    check.bucket_times(bucket_times)

One module for each part.  What is expected comes a second way: not from the library's ``timeline``,
``simulator`` and ``utilization``, which compute the same.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import given, tolerance
from course_lib.checks.exercise_07 import billing, choosing, queueing, stepping, tracing, utilizing
from course_lib.checks.exercise_07.billing import EXPOSED_GPU_HOURS
from course_lib.checks.exercise_07.choosing import BEST_BUCKET
from course_lib.checks.exercise_07.queueing import BUCKET_TIMES
from course_lib.checks.exercise_07.stepping import ROUNDING, STEP_SECONDS
from course_lib.checks.exercise_07.tracing import HIDDEN_AND_EXPOSED
from course_lib.checks.exercise_07.utilizing import MFU_AND_HFU
from course_lib.checks.given import with_names


def hidden_and_exposed(function: Callable) -> float:
    """Check ``hidden_and_exposed(spans, rank) -> (hidden, exposed)``."""
    return tolerance.check(HIDDEN_AND_EXPOSED, with_names(tracing.ARGUMENTS, function), ROUNDING)


def bucket_times(function: Callable) -> float:
    """Check ``bucket_times(buckets, ready, seconds, backward_end) -> (times, exposed)``."""
    return tolerance.check(BUCKET_TIMES, with_names(queueing.ARGUMENTS, function), ROUNDING)


def step_seconds(function: Callable) -> float:
    """Check ``step_seconds(model, network, bucket_mb, micro_batches) -> seconds``."""
    return tolerance.check(STEP_SECONDS, with_names(stepping.ARGUMENTS, function), ROUNDING)


def best_bucket(function: Callable) -> float:
    """Check ``best_bucket(model, network, sizes, micro_batches) -> (bucket_mb, seconds)``."""
    return tolerance.check(BEST_BUCKET, with_names(choosing.ARGUMENTS, function), ROUNDING)


def mfu_and_hfu(function: Callable) -> float:
    """Check ``mfu_and_hfu(run, data_sheet) -> (mfu, hfu)``, or None."""
    return tolerance.check(MFU_AND_HFU, with_names(utilizing.ARGUMENTS, function), ROUNDING)


def exposed_gpu_hours(function: Callable) -> float:
    """Check ``exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds)``."""
    return tolerance.check(EXPOSED_GPU_HOURS, with_names(billing.ARGUMENTS, function), ROUNDING)


_PARTS = {
    "hidden_and_exposed": (HIDDEN_AND_EXPOSED, tracing.ARGUMENTS),
    "bucket_times": (BUCKET_TIMES, queueing.ARGUMENTS),
    "step_seconds": (STEP_SECONDS, stepping.ARGUMENTS),
    "best_bucket": (BEST_BUCKET, choosing.ARGUMENTS),
    "mfu_and_hfu": (MFU_AND_HFU, utilizing.ARGUMENTS),
    "exposed_gpu_hours": (EXPOSED_GPU_HOURS, billing.ARGUMENTS),
}


def case(name: str, number: int) -> tuple:
    """The arguments of a case, to try a function with: number 1 is the first one that its check names.

    ``bucket_times(*check.case("bucket_times", 2))`` calls it as the check does.  Raises ValueError for an
    unknown function, or a case that there is not.
    """
    return given.case(_PARTS, name, number)
