"""How long each layer of a module computes: measured on all ranks at once, without any communication.

    times = layer_times.measure(module, lambda: loss_function(module(x), y), optimizer)   # inside a rank
    simulate_step(times.layers, reduce_seconds, optimizer_seconds=times.optimizer_seconds)

Ranks that share a machine also share its cores and its memory, so one rank alone would be too fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.arguments import whole_number
from course_lib.simulator import Layer

Layers = dict[str, list[nn.Parameter]]  # in the order of the forward pass: a module, and what it holds


class StepTimes(NamedTuple):
    """The layers in the order of the forward pass, for ``simulator.simulate_step``, and the optimizer."""

    layers: list[Layer]
    optimizer_seconds: float


def measure(
    module: nn.Module, loss_of: Callable[[], Tensor], optimizer: torch.optim.Optimizer, repeats: int = 9
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
    _step(module, loss_of, optimizer)  # warms up
    steps = [_step(module, loss_of, optimizer) for _ in range(repeats)]
    layers = _layers(module, steps[0].began)
    of_this_rank = [median(times) for times in zip(*(step.ends(layers) for step in steps), strict=True)]
    of_ranks: list[list[float]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(of_ranks, of_this_rank)
    *passes, step_end = map(max, zip(*of_ranks, strict=True))
    seconds = [end - start for start, end in pairwise([0.0, *passes])]
    forward, backward = seconds[: len(layers)], reversed(seconds[len(layers) :])
    timed = zip(layers.items(), forward, backward, strict=True)
    return StepTimes(
        [Layer(name or "module", tuple(map(_bytes, own)), *both) for (name, own), *both in timed],
        step_end - passes[-1],
    )


def _layers(module: nn.Module, ran: Iterable[str]) -> Layers:
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


def _bytes(parameter: nn.Parameter) -> int:
    return parameter.numel() * parameter.element_size()


# --- one step ---


@dataclass
class _Noted:
    """Moments of one step, in seconds since its start.

    ``began``, ``ended``: a module's forward, in the order in which modules began.  ``reached``: backward had
    the gradient of its output.  ``arrived``: a parameter's gradient was there.
    """

    began: dict[str, float]
    ended: dict[str, float]
    reached: dict[str, float]
    arrived: dict[nn.Parameter, float]
    passes: dict[str, float]

    def ends(self, layers: Layers) -> list[float]:
        """The ends of all layers forward, then of all backward, the last layer first, and of the step."""
        names = list(layers)
        forward = [self._forward_end(name, names) for name in names[:-1]]
        backward = [self._backward_end(layers[name], before) for before, name in pairwise(names)]
        # Before the first one's own end there is nothing left to do, and after the last one is the loss.
        moments = [*forward, self.passes["forward"], *reversed(backward), self.passes["backward"]]
        return [*accumulate(moments, max), self.passes["step"]]

    def _forward_end(self, name: str, names: list[str]) -> float:
        """A module with other layers inside is passed where it begins."""
        inside = f"{name}." if name else ""
        contains = any(other != name and other.startswith(inside) for other in names)
        return (self.began if contains else self.ended)[name]

    def _backward_end(self, own: list[nn.Parameter], before: str) -> float:
        """Where a layer has no gradient of its own, as a head with a tied weight, the next one begins."""
        arrived = [self.arrived[parameter] for parameter in own if parameter in self.arrived]
        return max(arrived, default=self.reached.get(before, 0.0))


def _step(module: nn.Module, loss_of: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> _Noted:
    clock = _CudaClock() if next(module.parameters()).is_cuda else _Clock()
    noted = _Noted({}, {}, {}, {}, {})
    optimizer.zero_grad()
    with _hooks(module, noted, clock):
        dist.barrier()
        clock.start()
        loss = loss_of()
        noted.passes["forward"] = clock.now()
        loss.backward()
        noted.passes["backward"] = clock.now()
        optimizer.step()
        noted.passes["step"] = clock.now()
    return _Noted(*(clock.seconds(moments) for moments in vars(noted).values()))


@contextmanager
def _hooks(module: nn.Module, noted: _Noted, clock: _Clock) -> Iterator[None]:
    """A module that runs twice, as one that is checkpointed: its first forward and its last backward count."""

    def began(name: str, *_: object) -> None:
        noted.began.setdefault(name, clock.now())

    def ended(name: str, module: nn.Module, inputs: object, output: object) -> None:
        noted.ended.setdefault(name, clock.now())
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(partial(note, noted.reached, name))

    def note(moments: dict, key: object, *_: object) -> None:
        moments[key] = clock.now()

    with ExitStack() as hooks:
        for name, each in module.named_modules():
            hooks.callback(each.register_forward_pre_hook(partial(began, name)).remove)
            hooks.callback(each.register_forward_hook(partial(ended, name)).remove)
        for parameter in module.parameters():
            if parameter.requires_grad:
                hook = partial(note, noted.arrived, parameter)
                hooks.callback(parameter.register_post_accumulate_grad_hook(hook).remove)
        yield


class _Clock:
    """Moments, and what they are in seconds since the start."""

    def start(self) -> None:
        self._start = self.now()

    def now(self) -> float:
        return time.perf_counter()

    def seconds(self, moments: dict) -> dict:
        return {key: moment - self._start for key, moment in moments.items()}


class _CudaClock(_Clock):
    """A GPU gets to its work later than the processor has asked for it, so its own events tell the time."""

    def start(self) -> None:
        torch.cuda.synchronize()
        super().start()

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, moments: dict) -> dict:
        torch.cuda.synchronize()
        return {key: self._start.elapsed_time(moment) / 1e3 for key, moment in moments.items()}
