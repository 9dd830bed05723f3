"""AdamW whose state is divided over the ranks: ZeRO stage 1, from the two halves of the course's ring.

    data_parallel.broadcast_parameters(module)                # inside a rank: all begin with the same weights
    optimizer = sharded.ShardedAdamW(module.parameters(), lr=1e-3)
    loss_function(module(inputs), targets).backward()         # this rank's gradients: step() averages them
    optimizer.step()
    optimizer.zero_grad()
    optimizer.state_bytes()                                   # in the formula's form: memory.ModelState

A ring all-reduce is a reduce-scatter and an all-gather.  Between the two, each rank has the sum of one chunk
of the gradient, and that is all it needs to update the same chunk of the weights.  So the optimizer steps
there, on 1/N of the weights, and the all-gather spreads new weights instead of gradients.  It is as many
bytes on the wire, and Adam's moments and the fp32 master weights exist only once among all ranks: with 16-bit
weights 4P + 12P/N bytes on each rank in the place of 16P (ZeRO, arXiv 1910.02054, sections 5.1 and 7).
The host never waits for a GPU.  (Written for it, and not yet run there.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from course_lib import all_reduce
from course_lib.arguments import number
from course_lib.memory import ModelState
from course_lib.storages import storage_bytes

Group = dict[str, Any]


class ShardedAdamW:
    """Steps as ``torch.optim.AdamW`` does on the mean gradient of all ranks, with 1/N of its state on each.

    ``parameters``: tensors, or groups as torch's optimizers take them; frozen ones stay as they are.
    ``settings``: those of torch.optim.AdamW, such as ``lr`` and ``weight_decay``.
    All ranks must begin with the same weights, and hand over the same parameters in the same order.  Weights
    of 2 bytes each get an fp32 master copy, of which a rank has its chunk only.  The weights then live in one
    flat row, so move or convert the module before.  Weights that are loaded later are what the next step goes
    on from, rounded as they are.

    There is no ``state_dict``: a checkpoint would need the state of all ranks.  Nor does it know a
    ``GradScaler``, so it is not for fp16, whose losses have to be scaled.

    ``optimizer`` is torch's, for schedulers and for ``param_groups``: on this rank's chunk of the row, which
    is ``row.tensor_split(N)[rank]``, cut where groups meet.  A chunk may be empty.

    Raises ValueError for no trained parameter, the same one twice, and parameters that are not all of one
    floating type.
    """

    def __init__(self, parameters: Iterable[torch.Tensor] | Iterable[Group], **settings: Any):
        groups = _trained(torch.optim.AdamW(parameters, **settings).param_groups)
        self._parameters = [parameter for group in groups for parameter in group["params"]]
        _require_one_kind(self._parameters)
        self._weights = _in_one_row(self._parameters)
        self._own = self._chunk(self._weights)
        self._master = self._own.float() if self._own.itemsize < 4 else self._own
        self._versions = self._versions_now()
        self._cuts = self._where_groups_meet([group["params"] for group in groups])
        self._pieces = [torch.nn.Parameter(piece) for piece in self._master.tensor_split(self._cuts)]
        self.optimizer = torch.optim.AdamW(
            [{**group, "params": [piece]} for group, piece in zip(groups, self._pieces, strict=True)]
        )

    @torch.no_grad()
    def step(self, max_norm: float | None = None) -> None:
        """Average the gradients over all ranks and update the weights: once, on all ranks.

        ``max_norm``: clip the mean gradient to this norm over all parameters.  Raises ValueError for a
        parameter without a gradient, and RuntimeError if the module was moved or converted.
        """
        self._follow_weights()
        gradients = torch.cat([gradient.flatten() for gradient in self._gradients()])
        gradients /= dist.get_world_size()  # before the sum, which might overflow
        all_reduce.reduce_scatter(gradients)  # the ring's first half
        own = self._chunk(gradients).to(self._master.dtype)
        if max_norm is not None:
            own *= _clipping(own, number("max_norm", max_norm))
        for piece, gradient in zip(self._pieces, own.tensor_split(self._cuts), strict=True):
            piece.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._own.copy_(self._master)
        all_reduce.all_gather(self._weights)  # its second half
        torch.autograd.graph.increment_version(self._parameters)
        self._versions = self._versions_now()

    def _follow_weights(self) -> None:
        """Somebody else may have changed them, as load_state_dict does, without the master copy."""
        if self._master is not self._own and self._versions != self._versions_now():
            self._master.copy_(self._own)

    def _versions_now(self) -> list[int]:
        return [parameter._version for parameter in self._parameters]

    def zero_grad(self) -> None:
        """Set all gradients to None.  Until then backward passes add up, as micro-batches do."""
        for parameter in self._parameters:
            parameter.grad = None

    def state_bytes(self) -> ModelState:
        """What this rank holds now, in bytes, counted in its tensors: their storages, each of them once.

        Beside it stands ``memory.model_state(parameters, zero_stage=1, ranks=N)``, of the rank with the
        longest chunk.  Not counted: Adam's step counts, 4 bytes for each group, and what ``step`` holds while
        it runs, which are the gradients once more, and this rank's chunk of them in fp32.
        """
        gradients = [each.grad for each in (*self._parameters, *self._pieces) if each.grad is not None]
        states = [item for state in self.optimizer.state.values() for item in state.items()]
        return ModelState(
            weights=storage_bytes(self._parameters),
            gradients=storage_bytes(gradients),
            master=storage_bytes([self._master]) if self._master is not self._own else 0,
            optimizer=storage_bytes(each for name, each in states if name != "step"),
        )

    def _chunk(self, row: torch.Tensor) -> torch.Tensor:
        return row.tensor_split(dist.get_world_size())[dist.get_rank()]

    def _where_groups_meet(self, groups: list[list[torch.Tensor]]) -> list[int]:
        """In this rank's chunk; a group that is not in it lies between two equal places."""
        ends = torch.tensor([sum(map(torch.numel, group)) for group in groups]).cumsum(0)
        return (ends[:-1] - int(self._own.storage_offset())).clamp(0, len(self._own)).tolist()

    def _gradients(self) -> Iterator[torch.Tensor]:
        for place, parameter in enumerate(self._parameters, start=1):
            which = f"trained parameter {place} of {len(self._parameters)}, {tuple(parameter.shape)},"
            if parameter.untyped_storage().data_ptr() != self._weights.untyped_storage().data_ptr():
                raise RuntimeError(f"{which} has left the row of weights: the module was moved or converted")
            if parameter.grad is None or parameter.grad.layout != torch.strided:
                found = "no gradient" if parameter.grad is None else f"one of layout {parameter.grad.layout}"
                raise ValueError(f"{which} has {found}: expected a dense gradient for each on every rank")
            yield parameter.grad


def _trained(groups: list[Group]) -> list[Group]:
    """Groups without what is frozen, and none that is empty."""
    trained = [[each for each in group["params"] if each.requires_grad] for group in groups]
    return [{**group, "params": own} for group, own in zip(groups, trained, strict=True) if own]


def _require_one_kind(parameters: list[torch.Tensor]) -> None:
    if not parameters:
        raise ValueError("nothing to train: expected a parameter with requires_grad=True")
    if len({id(parameter) for parameter in parameters}) < len(parameters):
        raise ValueError("a parameter is there twice: expected each once, as module.parameters() has it")
    types = sorted({str(parameter.dtype) for parameter in parameters})
    if len(types) > 1 or not parameters[0].is_floating_point():
        raise ValueError(f"parameters of {' and '.join(types)}: expected one floating type for all")


@torch.no_grad()
def _in_one_row(parameters: list[torch.Tensor]) -> torch.Tensor:
    """All elements in a new row, of which the parameters are parts from now on."""
    row = torch.cat([parameter.flatten() for parameter in parameters])
    pieces = row.split([parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.data = piece.view(parameter.shape)
    return row


def _clipping(own: torch.Tensor, max_norm: float) -> torch.Tensor:
    """The factor for a gradient of which each rank has a chunk, as of torch's ``clip_grad_norm_``."""
    squares = torch.linalg.vector_norm(own, dtype=torch.float64).square()
    all_reduce.ring(squares)
    return (max_norm / (squares.sqrt() + 1e-6)).clamp(max=1.0).to(own.dtype)
