"""What a step's gradients tell about their noise, without a backward pass of its own.

Stands on ``noise_scale.Meter``, which it feeds, and on one small all-reduce.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist

from course_lib.all_reduce import ring
from course_lib.noise_scale import Meter


class NoiseProbe:
    """Squared norms of the gradients of small batches and of the whole one, on their way through a step.

    Small batches are those of the ranks, just before their gradients are averaged; on a single rank they are
    micro-batches.  There the gradients so far are set aside while one goes backward, so that ``.grad`` holds
    its gradient alone; that takes memory for the gradients a second time.  (Hooks, which would take none,
    fire once for each part of a gradient where reentrant checkpointing meets a shared weight.)  Ranks and
    micro-batches are weighted by their counts, so the harmonic mean of the counts takes the place of one
    small batch.  Without a meter all this is left out.
    """

    def __init__(self, module: torch.nn.Module, meter: Meter | None):
        self.meter = meter
        self.parameters = list(module.parameters()) if meter is not None else []
        self.small = [0.0, 0.0, 0]  # sums of squared norms, of 1/count, and how many

    @contextlib.contextmanager
    def micro_batch(self, count: float, weight: float) -> Iterator[None]:
        """Open while a micro-batch goes backward whose loss is multiplied by ``weight``."""
        if self.meter is None or dist.get_world_size() > 1:
            yield
            return
        with _set_aside(self.parameters):
            yield
            self._add(self._norm_sq(), count, weight)

    @contextlib.contextmanager
    def average(self, count: float, total: float) -> Iterator[None]:
        """Open while gradients are averaged: this rank's, of ``count`` of the ``total`` samples."""
        if self.meter is None:
            yield
            return
        if dist.get_world_size() > 1 and count:
            self._add(self._norm_sq(), count, weight=count * dist.get_world_size() / total)
        yield
        norms_sq, reciprocals, number = self._of_all_ranks()
        self.meter.update(norms_sq / number, self._norm_sq(), number / reciprocals, total)

    def _add(self, norm_sq: float, count: float, weight: float) -> None:
        found = norm_sq / weight**2, 1 / count, 1
        self.small = [each + new for each, new in zip(self.small, found, strict=True)]

    def _of_all_ranks(self) -> list[float]:
        sums = torch.tensor(self.small, dtype=torch.float64, device=self.parameters[0].device)
        ring(sums)
        return sums.tolist()

    def _norm_sq(self) -> float:
        norms = [_norm(parameter.grad) for parameter in self.parameters if parameter.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0
        return norm * norm  # of a number too large, infinity, where ** would raise an error


@contextlib.contextmanager
def _set_aside(parameters: list[torch.nn.Parameter]) -> Iterator[None]:
    """While open, there are no gradients; what comes is then added to those that were there."""
    earlier = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
    for parameter, _ in earlier:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in earlier:
            parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)


def _norm(gradient: torch.Tensor) -> torch.Tensor:
    """In float32 at least, since squares of half types overflow or vanish."""
    dense = gradient if gradient.layout == torch.strided else gradient.coalesce().values()
    return torch.linalg.vector_norm(dense, dtype=torch.promote_types(dense.dtype, torch.float32))
