"""One training step on all ranks: accumulate, synchronize once, clip, update.

Puts ``gradients`` and ``noise_probe`` together into what lesson 05 builds line by line.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from course_lib.all_reduce import ring
from course_lib.arguments import number
from course_lib.data_parallel.gradients import average_gradients, require_no_ddp
from course_lib.data_parallel.modules import parameters
from course_lib.data_parallel.noise_probe import NoiseProbe

if TYPE_CHECKING:
    from course_lib.noise_scale import Meter

MicroBatch = tuple[torch.Tensor, torch.Tensor]


def train_step(
    module: torch.nn.Module,
    micro_batches: Iterable[MicroBatch],
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    all_reduce: Callable[[torch.Tensor], object] | None = None,
    max_norm: float | None = None,
    *,
    count: Callable[[torch.Tensor], int | float | torch.Tensor] = len,
    accumulate_in: torch.dtype | None = None,
    noise_meter: Meter | None = None,
) -> torch.Tensor:
    """One optimizer step on the mean gradient of all micro-batches of all ranks.

    Returns this rank's mean loss, detached; NaN on a rank without samples.

    The gradient is that of one large batch, however it is divided over N ranks and K micro-batches; only one
    micro-batch's activations are in memory at a time.  Gradients are synchronized once, after the last one.

    ``micro_batches``: pairs (inputs, targets).  Ranks may have unequal numbers of them, and unequally long
    ones, and even none.
    ``loss_function(outputs, targets)``: the mean loss over what ``count(targets)`` counts, by default the
    samples.  For a loss over tokens, count those: a mean of means is wrong where they are unequally many.
    The sum of all counts costs a ring all-reduce of one number, 8 bytes, before the first forward pass.
    Micro-batches that count 0 are left out, since the mean over nothing is not a number.
    ``all_reduce``: as in ``average_gradients``.
    ``max_norm``: clip the averaged gradient to this norm over all parameters.
    ``accumulate_in``: the type in which gradients are added up and averaged, as torch.float32 for parameters
    in bfloat16, at two bytes more for each of their elements.  The optimizer gets them in their own type.
    ``noise_meter``: gets the squared norms of gradients from small batches and from the whole one, whose
    sum over ranks costs another 24 bytes.  Small is a rank's batch; on one rank, a micro-batch, and then
    gradients take their memory twice while one goes backward.

    Raises ValueError for gradients that are there already, for a count that is negative or no number, if
    all counts are 0, and for what ``average_gradients`` refuses.
    """
    require_no_ddp(module)
    _require_no_gradients(module)
    max_norm = number("max_norm", max_norm) if max_norm not in (None, math.inf) else None
    _require_float(accumulate_in)
    micro_batches = list(micro_batches)
    counts = [_count(count, targets) for _, targets in micro_batches]
    total = _sum_over_ranks(sum(counts), module)
    probe, loss_sum = NoiseProbe(module, noise_meter), torch.zeros((), device=_device(module))
    with _accumulated_in(accumulate_in, module):
        for (inputs, targets), own in zip(micro_batches, counts, strict=True):
            if own:
                loss = loss_function(module(inputs), targets)
                weight = own * dist.get_world_size() / total  # 1/K, if all micro-batches count the same
                with probe.micro_batch(own, weight):
                    (loss * weight).backward()
                loss_sum = loss_sum + loss.detach() * own
        with probe.average(sum(counts), total):
            average_gradients(module, all_reduce)
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    module.zero_grad()
    return loss_sum / sum(counts)


def _require_no_gradients(module: torch.nn.Module) -> None:
    for name, parameter in parameters(module):
        if parameter.grad is not None:
            raise ValueError(
                f"{name} has a gradient before the step: expected none, since this step would add to it; "
                "call module.zero_grad() first"
            )


def _count(count: Callable[[torch.Tensor], int | float | torch.Tensor], targets: torch.Tensor) -> float:
    try:
        found = count(targets)
        found = found.item() if isinstance(found, torch.Tensor) else found
    except (TypeError, RuntimeError) as error:
        raise ValueError("the targets can't be counted: expected a count that gives one number") from error
    return number("count(targets)", found, least=0)


def _require_float(accumulate_in: object) -> None:
    if accumulate_in is not None and not getattr(accumulate_in, "is_floating_point", False):
        raise ValueError(f"accumulate_in={accumulate_in!r}: expected a floating type, such as torch.float32")


def _sum_over_ranks(own: float, module: torch.nn.Module) -> float:
    total = torch.tensor([own], dtype=torch.float64, device=_device(module))
    ring(total)
    if not total.item():
        raise ValueError("nothing to learn from: the counts of all micro-batches on all ranks are 0")
    return total.item()


def _device(module: torch.nn.Module) -> torch.device:
    return next((parameter.device for parameter in module.parameters()), torch.device("cpu"))


@contextlib.contextmanager
def _accumulated_in(dtype: torch.dtype | None, module: torch.nn.Module) -> Iterator[None]:
    """While open, gradients are of this type; afterwards again of their parameters', for the optimizer."""
    trained = [each for each in module.parameters() if dtype is not None and each.requires_grad]
    own = [parameter.grad_dtype for parameter in trained]
    for parameter in trained:
        parameter.grad_dtype = dtype
    try:
        yield
    finally:
        for parameter, own_dtype in zip(trained, own, strict=True):
            gradient, parameter.grad = parameter.grad, None
            parameter.grad_dtype = own_dtype
            if gradient is not None:
                parameter.grad = gradient.to(parameter.dtype)
