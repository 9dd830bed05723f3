"""From a learner's function to one that gets plain data: what is trained is made in the rank.

The notebook's process needs no torch for this.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any


def in_rank(run: str, function: Any, *settings: object) -> Any:
    """A function that runs ``run``, such as "exercise_05.training.steps", with a learner's function.

    What is no function stays it.
    """
    return partial(_run, run, function, *settings) if callable(function) else function


def _run(run: str, *arguments: Any) -> Any:
    module, _, name = run.rpartition(".")
    return getattr(importlib.import_module(f"course_lib.checks.{module}"), name)(*arguments)
