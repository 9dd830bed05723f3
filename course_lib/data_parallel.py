"""Data parallelism: every rank trains its own copy of a module, on its own part of each batch.

    data_parallel.broadcast_parameters(module)        # once: all ranks begin with rank 0's weights
    for inputs, targets in loader:                    # this rank's part of the batch
        loss_function(module(inputs), targets).backward()
        data_parallel.average_gradients(module)
        optimizer.step()
        optimizer.zero_grad()
    data_parallel.assert_in_step(module)              # whenever in doubt

Every rank must call these, as often as the others.  They use torch.distributed's default group, and run the
same from a notebook, under torchrun, and on one rank alone.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from itertools import zip_longest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.all_reduce import all_gather, ring, scatter
from course_lib.ranks.diagnosis import names


def broadcast_parameters(module: torch.nn.Module) -> None:
    """Give all ranks the parameters and buffers of rank 0, bit for bit, whatever their types and layouts.

    Raises ValueError on every rank, before anything is sent, if names, shapes or types are not the same on
    all ranks; and for parameters that have no memory yet or are not dense.
    """
    tensors = dict(_parameters_and_buffers(module))
    _require_same_modules(tensors)
    for tensor in tensors.values():
        _broadcast(tensor.detach())


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
    _require_no_ddp(module)
    for parameter in _with_gradient_somewhere(module):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, dtype=parameter.grad_dtype)
        parameter.grad = parameter.grad.resolve_conj()
        gradient = _real(parameter.grad.detach())
        gradient /= dist.get_world_size()
        (all_reduce or ring)(gradient)


def assert_in_step(module: torch.nn.Module, buffers: bool = False) -> None:
    """Raise AssertionError on every rank unless all ranks have the same parameters, bit for bit.

    The message names the first parameter that differs, and which ranks agree on it.  With ``buffers=True``
    buffers must agree as well.  A NaN equals a NaN with the same bits, and 0.0 differs from -0.0.  Ranks
    compare checksums, so hardly anything is sent; on a GPU the parameters are copied to the host, one by one.

    Raises ValueError on every rank if names, shapes or types are not the same on all ranks.
    """
    tensors = dict(_parameters_and_buffers(module) if buffers else _parameters(module))
    _require_same_modules(tensors)
    checksums = _gather([_checksum(tensor.detach()) for tensor in tensors.values()])
    differing = {
        name: groups
        for name, *of_ranks in zip(tensors, *checksums, strict=True)
        if len(groups := _equal(of_ranks)) > 1
    }
    if differing:
        name, groups = next(iter(differing.items()))
        raise AssertionError(
            f"The ranks are out of step: {len(differing)} of {len(tensors)} tensors differ. The first is "
            f"{name}, with one value on {', another on '.join(map(names, groups))}."
        )


# --- gradients ---


def _with_gradient_somewhere(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that have a gradient on at least one rank: the same ones in the same order on all."""
    parameters = dict(_parameters(module))
    if not parameters:
        return []
    own = [int(_has_gradient(name, parameter)) for name, parameter in parameters.items()]
    described = zlib.crc32("; ".join(_description(*each) for each in parameters.items()).encode())
    sums = torch.tensor([*own, described], dtype=torch.int64, device=next(iter(parameters.values())).device)
    ring(sums)
    *counts, of_ranks = sums.tolist()
    if of_ranks != dist.get_world_size() * described:
        raise ValueError("the modules are not the same on all ranks: expected equal names, shapes and types")
    used = {name: parameters[name] for name, count in zip(parameters, counts, strict=True) if count}
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


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _require_no_ddp(module: torch.nn.Module) -> None:
    _require_module(module)
    if any(isinstance(part, DistributedDataParallel) for part in module.modules()):
        raise ValueError(
            "the module is inside torch's DistributedDataParallel, which has averaged its gradients already"
        )


# --- tensors of a module ---


def _parameters(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Each parameter once, even if several modules share it, by a name that says what it is."""
    _require_module(module)
    for name, parameter in module.named_parameters():
        yield f"parameter {name}", parameter


def _parameters_and_buffers(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from _parameters(module)
    for name, buffer in module.named_buffers():
        yield f"buffer {name}", buffer


def _require_module(module: object) -> None:
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module={module!r}: expected a torch.nn.Module")


def _require_same_modules(tensors: dict[str, torch.Tensor]) -> None:
    """Raise ValueError on all ranks unless names, shapes and types agree, in the same order."""
    descriptions = [_description(name, tensor) for name, tensor in tensors.items()]
    for of_ranks in zip_longest(*_gather(descriptions), fillvalue="nothing more"):
        if len(groups := _equal(of_ranks)) > 1:
            found = "; ".join(f"{of_ranks[group[0]]} on {names(group)}" for group in groups)
            raise ValueError(f"the modules are not the same on all ranks. At the first difference: {found}")


def _description(name: str, tensor: torch.Tensor) -> str:
    if torch.nn.parameter.is_lazy(tensor):
        raise ValueError(f"{name} has no shape yet: let the module compute something first, on every rank")
    if tensor.is_meta:
        raise ValueError(f"{name} is on the meta device: expected a tensor with memory")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} has layout {tensor.layout}: expected a dense tensor")
    return f"{name} {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _gather(own: list) -> list[list]:
    """What every rank has, in rank order."""
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    return everyone


def _equal(of_ranks: list | tuple) -> list[list[int]]:
    """The ranks in groups that have the same, each group and the groups in rank order."""
    groups: dict = {}
    for rank, value in enumerate(of_ranks):
        groups.setdefault(value, []).append(rank)
    return list(groups.values())


# --- bytes of a tensor ---


def _broadcast(tensor: torch.Tensor) -> None:
    """As bytes, since gloo and NCCL do not know every type.

    Rank 0 gives each rank a chunk, and an all-gather spreads the chunks: it sends less than two tensors,
    however many ranks there are.
    """
    stored = _without_repeats(tensor)
    dense = stored.resolve_conj().resolve_neg().contiguous()
    if dense.numel():
        row = _bytes(dense)
        scatter(row)
        all_gather(row)
    if dense is not stored:
        stored.copy_(dense)


def _without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    """An expanded tensor shows the same memory several times; here it is once."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _bytes(dense: torch.Tensor) -> torch.Tensor:
    return dense.view(-1).view(torch.uint8)


def _checksum(tensor: torch.Tensor) -> bytes:
    return hashlib.blake2b(_bytes(tensor.cpu().contiguous()).numpy(), digest_size=16).digest()
