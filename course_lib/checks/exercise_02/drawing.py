"""Draws tensors for the ranks, without torch: the same at every check."""

from __future__ import annotations

import math

from course_lib.checks import draws
from course_lib.checks.exercise_03.tensors import Form
from course_lib.checks.values import Tensor


def draw(form: Form, ranks: int, seed: str) -> list[Tensor]:
    """A tensor for each rank, of small whole numbers, so that no sum is rounded; but large ones in int64.

    Those lose digits on the way through a float.
    """
    dtype, shape, layout = form
    random, number = draws.random(f"{seed} {ranks} {form}"), float if "float" in dtype else int
    least, most = (10**17, 2 * 10**17) if dtype == "int64" else (1, 30)
    rows = ([number(random.randint(least, most)) for _ in range(math.prod(shape))] for _ in range(ranks))
    return [Tensor(dtype, shape, tuple(row), layout) for row in rows]
