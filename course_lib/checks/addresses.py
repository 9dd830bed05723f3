"""Where tensors lie in memory, to find out which of them share it."""

from __future__ import annotations

from typing import Any


def span(tensor: Any) -> range:
    """The addresses between a tensor's first and last element."""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    length = (steps + 1) * tensor.element_size() if tensor.numel() else 0
    return range(tensor.data_ptr(), tensor.data_ptr() + length)


def overlap(one: range, other: range) -> bool:
    """Whether two spans have an address in common."""
    return max(one.start, other.start) < min(one.stop, other.stop)
