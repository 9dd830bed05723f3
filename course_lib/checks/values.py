"""Values as plain data, for the way between a check and the ranks that run a learner's function.

What a learner's function returns may be anything, also an object that lies when it is compared.  So a rank
hands back a description made of numbers and text only, and the check compares descriptions in its own
process.  Cases are described in the same way, so drawing and comparing them needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SHOWN = 4  # numbers of a tensor in a message
_MOST_NUMBERS = 2**20  # of a tensor that a learner's function returns


@dataclass(frozen=True)
class Tensor:
    """A tensor: ``numbers`` in row-major order; how they lie in memory is ``layout``.

    Layouts: ``contiguous``; ``transposed`` (columns first); ``strided`` (every second element of a larger
    tensor).  Two descriptions are equal whatever their layout.
    """

    dtype: str
    shape: tuple[int, ...]
    numbers: tuple[float, ...]
    layout: str = "contiguous"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor) or (self.dtype, self.shape) != (other.dtype, other.shape):
            return False
        # repr tells -0.0 from 0.0 and finds nan equal to nan
        return list(map(repr, self.numbers)) == list(map(repr, other.numbers))

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __str__(self) -> str:
        shown = [f"{number:g}" for number in self.numbers[:_SHOWN]]
        more = ["…"] if len(self.numbers) > _SHOWN else []
        return f"{self.dtype} {'×'.join(map(str, self.shape)) or 'scalar'} [{', '.join(shown + more)}]"


@dataclass(frozen=True)
class Unknown:
    """Something that is neither a number, text, a tensor, nor a list or tuple of those: its type's name."""

    type_name: str

    def __str__(self) -> str:
        return f"a {self.type_name}"


def counting_up(dtype: str, shape: tuple[int, ...], first: int, layout: str = "contiguous") -> Tensor:
    """A tensor that holds first, first + 1, ... in row-major order."""
    number = float if "float" in dtype else int
    numbers = range(first, first + math.prod(shape))
    return Tensor(dtype, shape, tuple(map(number, numbers)), layout)


def describe(value: Any, depth: int = 3) -> Any:
    """``value`` as plain data: called in a rank, right after the learner's function has returned."""
    import torch

    if type(value) in (int, float, bool, str, type(None)):
        return value
    if type(value) in (tuple, list) and depth:
        return tuple(describe(item, depth - 1) for item in value)
    if isinstance(value, torch.Tensor) and value.numel() <= _MOST_NUMBERS:
        numbers = tuple(value.detach().to("cpu", copy=True).reshape(-1).tolist())
        return Tensor(str(value.dtype).removeprefix("torch."), tuple(value.shape), numbers)
    return Unknown(type(value).__name__[:60])


def build(value: Any, device: Any) -> Any:
    """The opposite of ``describe``, tensors on ``device`` and in their layout."""
    import torch

    if isinstance(value, tuple):
        return tuple(build(item, device) for item in value)
    if not isinstance(value, Tensor):
        return value
    tensor = torch.tensor(value.numbers, dtype=getattr(torch, value.dtype), device=device)
    tensor = tensor.reshape(value.shape)
    if value.layout == "transposed":
        return tensor.T.contiguous().T
    if value.layout == "strided":
        return torch.stack([tensor, torch.zeros_like(tensor)], dim=-1)[..., 0]
    return tensor


def tensors(value: Any) -> Iterator[Any]:
    """All torch tensors in a value, through lists and tuples."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def text(value: Any) -> str:
    """A described value as a learner reads it."""
    if isinstance(value, tuple):
        return f"({', '.join(text(item) for item in value)})"
    return repr(value)[:80] if isinstance(value, str) else str(value)
