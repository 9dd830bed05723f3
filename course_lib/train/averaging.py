"""The ways to the mean gradient of all ranks, each in the same loop.

Stands on ``overlap``, ``data_parallel`` and torch's DDP, which stand in the same form here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib import data_parallel
from course_lib.overlap import BucketedDataParallel, comm_hook
from course_lib.overlap.channel import AllReduce
from course_lib.train.data import MicroBatch
from course_lib.train.loss import Loss, squared_norm

_ALL_IN_ONE_MB = 2.0**20  # more than any module has; DDP counts bytes in 64 bits


class Optimizer(Protocol):
    """What a loop knows of the optimizer."""

    def step(self) -> object: ...

    def zero_grad(self) -> object: ...


class Averaging(NamedTuple):
    """A module on all ranks.

    ``forward(inputs)``.  ``no_sync()``: inside, backward passes only add up.  ``finish()``: after the last
    backward pass of a step; then each gradient is the mean over all ranks.  It returns the squared norm that
    this rank's own gradient had before, or None where nobody saw it.
    """

    forward: Callable[[torch.Tensor], torch.Tensor]
    no_sync: Callable[[], contextlib.AbstractContextManager]
    finish: Callable[[], torch.Tensor | None]


def loop(
    averaging: Averaging, batches: Iterable[list[MicroBatch]], loss_function: Loss, optimizer: Optimizer
) -> None:
    """A step for each of ``batches``, each a list of this rank's micro-batches."""
    for micro_batches in batches:
        *earlier, last = micro_batches
        with averaging.no_sync():
            for inputs, targets in earlier:
                (loss_function(averaging.forward(inputs), targets) / len(micro_batches)).backward()
        inputs, targets = last
        (loss_function(averaging.forward(inputs), targets) / len(micro_batches)).backward()
        loss_function.note_gradient(averaging.finish())
        optimizer.step()
        optimizer.zero_grad()


def in_buckets(module: torch.nn.Module, all_reduce: AllReduce, bucket_mb: float) -> Averaging:
    model = BucketedDataParallel(module, bucket_mb, min(1.0, bucket_mb), all_reduce=all_reduce)

    def finish() -> torch.Tensor | None:
        model.finish()
        return model.local_norm_sq

    return Averaging(model, model.no_sync, finish)


def in_ddp(module: torch.nn.Module, all_reduce: AllReduce, bucket_mb: float) -> Averaging:
    """Torch's DDP.  Nobody sees a rank's own gradient, since DDP averages while it is computed."""
    bucket_mb = min(bucket_mb, _ALL_IN_ONE_MB)
    model = DistributedDataParallel(module, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    if all_reduce is not dist.all_reduce:
        model.register_comm_hook(None, comm_hook(all_reduce))
    _let_ddp_rebuild(model)
    return Averaging(model, model.no_sync, lambda: None)


def _let_ddp_rebuild(model: DistributedDataParallel) -> None:
    """DDP makes its buckets anew after its first backward pass.

    In other buckets sums are rounded otherwise, and a run that is resumed would differ from one that is not.
    """
    device = next(model.parameters()).device
    model(torch.zeros(1, 1, dtype=torch.int64, device=device)).sum().backward()
    model.zero_grad()


def after_backward(module: torch.nn.Module, all_reduce: AllReduce) -> Averaging:
    """Each parameter by itself, when the backward pass is over."""
    data_parallel.broadcast_parameters(module)

    def finish() -> torch.Tensor | None:
        norm_sq = squared_norm(list(module.parameters()))
        data_parallel.average_gradients(module, all_reduce)
        return norm_sq

    return Averaging(module, contextlib.nullcontext, finish)


def made(module: torch.nn.Module, kind: str, all_reduce: AllReduce, bucket_mb: float) -> Averaging:
    """``kind``: one of ``settings.DATA_PARALLEL``."""
    if kind == "step":
        return after_backward(module, all_reduce)
    return (in_buckets if kind == "buckets" else in_ddp)(module, all_reduce, bucket_mb)
