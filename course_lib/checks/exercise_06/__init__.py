"""Exercise 06: buckets that are averaged while the backward pass goes on.

    from course_lib.checks import exercise_06 as check
    check.train(train)

One module for each part.  ``training`` trains a small model with a learner's function, in the ranks, and
``watching`` notes in which order things happen; ``problem`` says the same in plain Python, so that what is
expected comes a second way.  ``runs`` has the broken runs of the last part.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks.calling import in_rank
from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_06.collecting import COLLECT
from course_lib.checks.exercise_06.diagnosis import CAUSES
from course_lib.checks.exercise_06.filling import FILL_BUCKETS
from course_lib.checks.exercise_06.launching import TRAIN
from course_lib.checks.exercise_06.paper import ON_PAPER
from course_lib.checks.exercise_06.questions import asking
from course_lib.checks.exercise_06.runs import broken_run as broken_run
from course_lib.checks.given import as_it_is, with_names


def on_paper(function: Callable) -> float:
    """Check ``on_paper() -> answers``, a dict."""
    return _check(ON_PAPER, asking(function))


def fill_buckets(function: Callable) -> float:
    """Check ``fill_buckets(sizes, bucket_bytes) -> buckets``, lists of indices."""
    return _check(FILL_BUCKETS, with_names((list, as_it_is), function))


def collect(function: Callable) -> float:
    """Check ``collect(module, bucket_bytes, firings, on_full)``."""
    return _check(COLLECT, in_rank("exercise_06.training.collect", function))


def train(function: Callable) -> float:
    """Check ``train(module, batches, loss_function, optimizer, bucket_bytes, firings)``."""
    return _check(TRAIN, in_rank("exercise_06.training.train", function))


def causes(function: Callable) -> float:
    """Check ``causes() -> answers``, a dict."""
    return _check(CAUSES, asking(function))
