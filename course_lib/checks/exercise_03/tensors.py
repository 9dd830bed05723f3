"""Draws tensors for the ranks, and their sums, without torch: the same at every check.

The numbers are whole, also in floats, and so small that no sum is rounded in any order; but for those of
``rounding``, which are there to be rounded.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from course_lib.checks import draws
from course_lib.checks.values import PERIOD, Tensor, is_large

Form = tuple[str, tuple[int, ...], str]  # dtype, shape, layout

# The largest number of one rank: eight of them make a sum that the dtype can hold.  Those of int64 and
# float64 lose digits in any smaller type.
_LARGEST = {"bfloat16": 31, "float32": 8000, "int32": 10**8, "float64": 2**49, "int64": 2**59}


def draw(form: Form, ranks: int, seed: str) -> list[Tensor]:
    """A tensor for each rank."""
    dtype, shape, layout = form
    random, number = draws.random(f"{seed} {ranks} {form}"), float if "float" in dtype else int
    count, largest = PERIOD if is_large(shape) else math.prod(shape), _LARGEST[dtype]
    rows = ([number(random.randint(1, largest)) for _ in range(count)] for _ in range(ranks))
    return [Tensor(dtype, shape, tuple(row), layout) for row in rows]


def rounding(count: int, ranks: int) -> list[Tensor]:
    """Random float32 between -1 and 1."""
    random = draws.random(f"rounding {ranks}")
    rows = ([_float32(random.uniform(-1, 1)) for _ in range(count)] for _ in range(ranks))
    return [Tensor("float32", (count,), tuple(row)) for row in rows]


def rounding_error(ranks: int) -> float:
    """How far a sum of ``rounding`` may be off: each of N - 1 additions rounds a number of at most N."""
    return (ranks - 1) * ranks * 2.0**-24


def _float32(number: float) -> float:
    return struct.unpack("f", struct.pack("f", number))[0]


def total(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of all ranks' tensors."""
    first = tensors[0]
    add = math.fsum if "float" in first.dtype else sum
    numbers = tuple(map(add, zip(*(tensor.numbers for tensor in tensors), strict=True)))
    return Tensor(first.dtype, first.shape, numbers, first.layout)


def chunks(count: int, ranks: int) -> list[range]:
    """The elements of each chunk, as ``torch.tensor_split`` cuts a row."""
    short, longer = divmod(count, ranks)
    ends = [short * chunk + min(chunk, longer) for chunk in range(ranks + 1)]
    return [range(*ends[chunk : chunk + 2]) for chunk in range(ranks)]


def title(form: Form) -> str:
    """What a learner reads of it."""
    dtype, shape, layout = form
    count = math.prod(shape)
    if len(shape) == 1:
        size = f"{count or 'no'} element{'' if count == 1 else 's'}"
    else:
        size = f"shape {'×'.join(map(str, shape))}" if shape else "a scalar"
    return f"{dtype}, {size}" + ("" if layout == "contiguous" else f", {layout} in memory")
