"""Replicas: all ranks get the same parameters, and are seen to keep them.

Stands on the two halves of the course's ring, and on ``modules``.
"""

from __future__ import annotations

import hashlib

import torch

from course_lib.all_reduce import all_gather, scatter
from course_lib.data_parallel.modules import (
    gather,
    groups_of_equal,
    parameters,
    parameters_and_buffers,
    require_same_modules,
)
from course_lib.ranks.diagnosis import names


def broadcast_parameters(module: torch.nn.Module) -> None:
    """Give all ranks the parameters and buffers of rank 0, bit for bit, whatever their types and layouts.

    Raises ValueError on every rank, before anything is sent, if names, shapes or types are not the same on
    all ranks; and for parameters that have no memory yet or are not dense.
    """
    tensors = dict(parameters_and_buffers(module))
    require_same_modules(tensors)
    for tensor in tensors.values():
        _broadcast(tensor.detach())


def assert_in_step(module: torch.nn.Module, buffers: bool = False) -> None:
    """Raise AssertionError on every rank unless all ranks have the same parameters, bit for bit.

    The message names the first parameter that differs, and which ranks agree on it.  With ``buffers=True``
    buffers must agree as well.  A NaN equals a NaN with the same bits, and 0.0 differs from -0.0.  Ranks
    compare checksums, so hardly anything is sent; on a GPU the parameters are copied to the host, one by one.

    Raises ValueError on every rank if names, shapes or types are not the same on all ranks.
    """
    tensors = dict(parameters_and_buffers(module) if buffers else parameters(module))
    require_same_modules(tensors)
    checksums = gather([_checksum(tensor.detach()) for tensor in tensors.values()])
    differing = {
        name: groups
        for name, *of_ranks in zip(tensors, *checksums, strict=True)
        if len(groups := groups_of_equal(of_ranks)) > 1
    }
    if differing:
        name, groups = next(iter(differing.items()))
        raise AssertionError(
            f"The ranks are out of step: {len(differing)} of {len(tensors)} tensors differ. The first is "
            f"{name}, with one value on {', another on '.join(map(names, groups))}."
        )


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
    return hashlib.blake2b(_bytes(tensor.cpu().contiguous()).numpy().data, digest_size=16).digest()
