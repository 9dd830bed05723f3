"""Exercise 01: what is in a GPU's memory, and what to do when it does not fit.

    from course_lib.checks import exercise_01 as check
    check.parameter_bytes(parameter_bytes)

One module for each part.  What is expected comes from the library's own formulas (memory, activations,
transformer); what a mistake gives, from the same formulas with the mistake made.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks.checking import check as _check
from course_lib.checks.exercise_01.changes import FREES_MOST
from course_lib.checks.exercise_01.data_sheet import READ_DATA_SHEET
from course_lib.checks.exercise_01.fitting import MOST_LAYERS
from course_lib.checks.exercise_01.module_bytes import PARAMETER_BYTES
from course_lib.checks.exercise_01.recipes import MODEL_STATE


def parameter_bytes(function: Callable) -> float:
    """Check ``parameter_bytes(module) -> bytes``."""
    return _check(PARAMETER_BYTES, function)


def model_state(function: Callable) -> float:
    """Check ``model_state(parameters, recipe) -> (weights, gradients, master, optimizer)``."""
    return _check(MODEL_STATE, function)


def read_data_sheet(function: Callable) -> float:
    """Check ``read_data_sheet(memory_mib, tflops, sparse, has_bf16) -> (memory_bytes, bf16_flops)``."""
    return _check(READ_DATA_SHEET, function)


def most_layers(function: Callable) -> float:
    """Check ``most_layers(model, memory_bytes, micro_batch, sequence) -> layers``."""
    return _check(MOST_LAYERS, function)


def frees_most(function: Callable) -> float:
    """Check ``frees_most(model, micro_batch, sequence) -> (change, bytes)``."""
    return _check(FREES_MOST, function)
