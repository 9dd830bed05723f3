"""Gradients: their mean over all ranks.

Stands on the course's ring, or any other all-reduce that sums in place.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.all_reduce import ring
from course_lib.data_parallel.modules import description, parameters, require_module


def average_gradients(
    module: torch.nn.Module, all_reduce: Callable[[torch.Tensor], object] | None = None
) -> None:
    """Replace each gradient by its mean over all ranks, in place.

    ``all_reduce(tensor)`` sums a tensor over all ranks in place; the course's ring by default.  It is called
    once for each parameter that has a gradient on any rank.  Ranks without one count as zero.  A gradient
    that is None on all ranks stays None, so that the optimizer leaves the parameter alone.

    Gradients of every type are divided *before* the sum, as torch's DDP does it: in fp16 the sum would
    overflow.  Which parameters have gradients is agreed first, through a ring all-reduce of 8 bytes for each
    parameter tensor and 8 more, whatever ``all_reduce`` is; on a GPU the host waits for that.

    Raises ValueError for a module inside DistributedDataParallel, for sparse gradients, for modules that are
    not the same on all ranks, and for a parameter that is frozen on some ranks only.
    """
    require_no_ddp(module)
    for parameter in _with_gradient_somewhere(module):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, dtype=parameter.grad_dtype)
        parameter.grad = parameter.grad.resolve_conj()
        gradient = real(parameter.grad.detach())
        gradient /= dist.get_world_size()
        (all_reduce or ring)(gradient)


def _with_gradient_somewhere(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that have a gradient on at least one rank: the same ones in the same order on all."""
    named = dict(parameters(module))
    if not named:
        return []
    own = [int(_has_gradient(name, parameter)) for name, parameter in named.items()]
    described = zlib.crc32("; ".join(description(*each) for each in named.items()).encode())
    sums = torch.tensor([*own, described], dtype=torch.int64, device=next(iter(named.values())).device)
    ring(sums)
    *counts, of_ranks = sums.tolist()
    if of_ranks != dist.get_world_size() * described:
        raise ValueError("the modules are not the same on all ranks: expected equal names, shapes and types")
    used = {name: named[name] for name, count in zip(named, counts, strict=True) if count}
    for name, parameter in used.items():
        if not parameter.requires_grad:
            raise ValueError(f"{name} is frozen on rank {dist.get_rank()}, but not on a rank with a gradient")
    return list(used.values())


def _has_gradient(name: str, parameter: torch.nn.Parameter) -> bool:
    if not parameter.requires_grad or parameter.grad is None:
        return False
    if parameter.grad.layout != torch.strided:
        raise ValueError(
            f"{name} has a gradient of layout {parameter.grad.layout}: expected a dense one. "
            "An embedding's is dense with sparse=False."
        )
    return True


def real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def require_no_ddp(module: torch.nn.Module) -> None:
    require_module(module)
    for part in module.modules():
        if isinstance(part, DistributedDataParallel) or getattr(part, "averages_gradients", False):
            kind = type(part).__name__
            raise ValueError(f"the module is inside {kind}, which averages its gradients itself")
