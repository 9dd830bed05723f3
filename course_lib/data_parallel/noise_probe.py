"""What a step's gradients tell about their noise, without a backward pass of its own."""

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
    micro-batches, caught one by one as autograd adds them up.  Ranks and micro-batches are weighted by their
    counts, so the harmonic mean of the counts takes the place of one small batch.  Without a meter all this
    is left out.  (Reentrant checkpointing goes backward in parts, and its micro-gradients come in parts, too:
    on a single rank the noise is wrong with it.)
    """

    def __init__(self, module: torch.nn.Module, meter: Meter | None):
        self.module, self.meter = module, meter
        self.small = [0.0, 0.0, 0]  # sums of squared norms, of 1/count, and how many

    @contextlib.contextmanager
    def micro_batch(self, count: float, weight: float) -> Iterator[None]:
        """Open while a micro-batch goes backward whose loss is multiplied by ``weight``."""
        if self.meter is None or dist.get_world_size() > 1:
            yield
            return
        parts: list[torch.Tensor] = []
        trained = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        hooks = [each.register_hook(lambda gradient: parts.append(_norm(gradient))) for each in trained]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        self._add(_sum_of_squares(parts), count, weight)

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
        sums = torch.tensor(self.small, dtype=torch.float64, device=next(self.module.parameters()).device)
        ring(sums)
        return sums.tolist()

    def _norm_sq(self) -> float:
        gradients = [parameter.grad for parameter in self.module.parameters()]
        return _sum_of_squares([_norm(gradient) for gradient in gradients if gradient is not None])


def _norm(gradient: torch.Tensor) -> torch.Tensor:
    """In float32 at least, since squares of half types overflow or vanish."""
    dense = gradient.detach() if gradient.layout == torch.strided else gradient.detach().coalesce().values()
    return torch.linalg.vector_norm(dense, dtype=torch.promote_types(dense.dtype, torch.float32))


def _sum_of_squares(norms: list[torch.Tensor]) -> float:
    return torch.stack(norms).square().sum().item() if norms else 0.0
