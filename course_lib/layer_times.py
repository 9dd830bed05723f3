"""How long each layer of a module computes: measured on all ranks at once, without any communication.

    times = layer_times.measure(module, lambda: loss_function(module(x), y), optimizer)   # inside a rank
    simulate_step(times.layers, reduce_seconds, optimizer_seconds=times.optimizer_seconds)

Ranks that share a machine also share its cores and its memory, so one rank alone would be too fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist

from course_lib.arguments import whole_number
from course_lib.simulator import Layer
from course_lib.timeline import Recorder, Span

Layers = dict[str, list[torch.nn.Parameter]]  # in the order of the forward pass: a module, and what it holds
_FORWARD, _BACKWARD, _OPTIMIZER = "whole forward", "whole backward", "optimizer"


class StepTimes(NamedTuple):
    """The layers in the order of the forward pass, for ``simulator.simulate_step``, and the optimizer."""

    layers: list[Layer]
    optimizer_seconds: float


def measure(
    module: torch.nn.Module,
    loss_of: Callable[[], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    repeats: int = 9,
) -> StepTimes:
    """What a step takes layer by layer, measured inside ranks; each of them gets the same answer.

    ``loss_of`` calls ``module``, which must not communicate.  A layer is a module that holds parameters
    itself; what lies between two layers counts as the later one's.  The steps are real ones: each rank trains
    its own copy.

    Times since the step's start are medians of ``repeats``, on the rank where they are longest; a layer's
    are differences of these, so that they add up to a step.  Raises ValueError for a module without trainable
    parameters.
    """
    whole_number("repeats", repeats)
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ValueError("module has no trainable parameters: expected one that can be trained")
    steps = [_step(module, loss_of, optimizer) for _ in range(1 + repeats)]
    layers = _layers(module, _ran(steps.pop(0)))  # what only a first step does is left out
    of_this_rank = [median(times) for times in zip(*(_ends(spans, layers) for spans in steps), strict=True)]
    of_ranks: list[list[float]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(of_ranks, of_this_rank)
    ends = [max(times) for times in zip(*of_ranks, strict=True)]
    *seconds, optimizer_seconds = (end - start for start, end in pairwise([0.0, *ends]))
    forward, backward = seconds[: len(layers)], reversed(seconds[len(layers) :])
    timed = zip(layers.items(), forward, backward, strict=True)
    return StepTimes(
        [Layer(name or "module", tuple(map(_bytes, own)), *both) for (name, own), *both in timed],
        optimizer_seconds,
    )


def _step(
    module: torch.nn.Module, loss_of: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer
) -> list[Span]:
    record = Recorder()
    optimizer.zero_grad()
    dist.barrier()
    with record.step(module, [name for name, _ in module.named_modules() if name]):
        with record("compute", _FORWARD):
            loss = loss_of()
        with record("compute", _BACKWARD):
            loss.backward()
        with record("optimizer state", _OPTIMIZER):
            optimizer.step()
    return record.spans


def _ran(spans: Sequence[Span]) -> list[str]:
    """The modules that ran, in their order.  The one around them all, "", has no span, and began first."""
    forward = (span.label.partition(" ") for span in spans)
    return list(dict.fromkeys(["", *(name for kind, _, name in forward if kind == "forward")]))


def _layers(module: torch.nn.Module, ran: Iterable[str]) -> Layers:
    """The modules that hold parameters, in the order in which they ``ran``.

    A parameter whose module never ran is that of the module around it, as attention's that calls a function
    with its projection's weight.  A shared one is the first's alone, so that others may be left without any.
    """
    holders: Layers = {name: [] for name in ran}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        while name not in holders:
            name = name.rpartition(".")[0]
        holders[name].append(parameter)
    layers, seen = {}, set()
    for name, held in holders.items():
        if held:
            layers[name] = [each for each in dict.fromkeys(held) if each.requires_grad and each not in seen]
            seen.update(held)
    return layers


def _ends(spans: Sequence[Span], layers: Layers) -> list[float]:
    """When each layer ended forward, and then backward, the last one first, and the step; from its start.

    A layer that is used again, as one that is checkpointed, ends forward at its first use, and backward at
    its last one.
    """
    whole = {span.label: span for span in spans}
    first = {span.label: span for span in reversed(spans)}
    names, start = list(layers), whole[_FORWARD].start
    forward = [_passed(first, name, names) for name in names[:-1]]
    backward = [_last(spans, f"backward {name}", whole[_BACKWARD].start) for name in names[:0:-1]]
    # The loss is part of the last layer, and whatever backward ends with part of the first one.
    moments = [*forward, whole[_FORWARD].end, *backward, whole[_BACKWARD].end]
    return [moment - start for moment in [*accumulate(moments, max), whole[_OPTIMIZER].end]]


def _passed(first: dict[str, Span], name: str, names: Sequence[str]) -> float:
    """A layer with others inside it is passed where it begins."""
    if not name:
        return first[_FORWARD].start
    span = first[f"forward {name}"]
    return span.start if any(other.startswith(f"{name}.") for other in names) else span.end


def _last(spans: Sequence[Span], label: str, default: float) -> float:
    return max((span.end for span in spans if span.label == label), default=default)


def _bytes(parameter: torch.nn.Parameter) -> int:
    return parameter.numel() * parameter.element_size()
