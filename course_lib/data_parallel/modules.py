"""The tensors of a module by name, and whether all ranks have the same ones.

The ground of this package: ranks tell each other what they have, and nothing is averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from course_lib.ranks.diagnosis import names

T = TypeVar("T")


def parameters(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Each parameter once, even if several modules share it, by a name that says what it is."""
    require_module(module)
    for name, parameter in module.named_parameters():
        yield f"parameter {name}", parameter


def parameters_and_buffers(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from parameters(module)
    for name, buffer in module.named_buffers():
        yield f"buffer {name}", buffer


def require_module(module: object) -> None:
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module={module!r}: expected a torch.nn.Module")


def require_same_modules(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError on all ranks unless names, shapes and types agree, in the same order."""
    descriptions = [description(name, tensor) for name, tensor in tensors.items()]
    for of_ranks in zip_longest(*gather(descriptions), fillvalue="nothing more"):
        if len(groups := groups_of_equal(of_ranks)) > 1:
            found = "; ".join(f"{of_ranks[group[0]]} on {names(group)}" for group in groups)
            raise ValueError(f"the modules are not the same on all ranks. At the first difference: {found}")


def description(name: str, tensor: torch.Tensor) -> str:
    if torch.nn.parameter.is_lazy(tensor):
        raise ValueError(f"{name} has no shape yet: let the module compute something first, on every rank")
    if tensor.is_meta:
        raise ValueError(f"{name} is on the meta device: expected a tensor with memory")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} has layout {tensor.layout}: expected a dense tensor")
    return f"{name} {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def gather(own: T) -> list[T]:
    """What every rank has, in rank order."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    return everyone


def groups_of_equal(of_ranks: Sequence[Any]) -> list[list[int]]:
    """The ranks in groups that have the same, each group and the groups in rank order."""
    groups: dict = {}
    for rank, value in enumerate(of_ranks):
        groups.setdefault(value, []).append(rank)
    return list(groups.values())
