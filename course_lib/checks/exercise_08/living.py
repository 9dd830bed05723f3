"""Part 2 in a rank: a run that is lost and started again, beside the same run that nothing happens to.

Each start has a model, an optimizer and random numbers as a new process has them; what survives is on the
disk.  What is noted of it is where in the undisturbed run the model, the optimizer and the random numbers
are, when the learner's function asks for a step: bit by bit the same as before one of its steps, or as before
none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch

from course_lib.checks.exercise_08.schedule import share
from course_lib.checks.exercise_08.training import NoSuchStep, call

_FEATURES, _SAMPLES, _RATE = 4, 3, 0.05
_SEED = 8
_NOTED = 100  # steps and checkpoints of a start: more are no start of a run


class Lost(BaseException):
    """The machine: no learner's ``except Exception`` keeps it."""


class Adam:
    """Plain Adam, whose state is read and set as that of torch's own, which would import much first."""

    def __init__(self, module: torch.nn.Module):
        self._parameters = list(module.parameters())
        self.param_groups = [{"params": self._parameters, "lr": 0.0}]
        self.state = {parameter: _no_moments(parameter) for parameter in self._parameters}

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self._parameters:
            state, gradient = self.state[parameter], parameter.grad
            if gradient is None:  # of a frozen one, which torch's own leaves alone, too
                continue
            state["step"] += 1
            state["exp_avg"].mul_(0.9).add_(gradient, alpha=0.1)
            state["exp_avg_sq"].mul_(0.95).add_(gradient**2, alpha=0.05)
            first = state["exp_avg"] / (1 - 0.9 ** state["step"])
            second = state["exp_avg_sq"] / (1 - 0.95 ** state["step"])
            parameter.sub_(self.param_groups[0]["lr"] * first / (second.sqrt() + 1e-8))

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def state_dict(self) -> dict:
        state = {number: self.state[each] for number, each in enumerate(self._parameters)}
        numbers = list(range(len(self._parameters)))
        return {"state": state, "param_groups": [{**self.param_groups[0], "params": numbers}]}

    def load_state_dict(self, state_dict: dict) -> None:
        self.param_groups[0]["lr"] = state_dict["param_groups"][0]["lr"]
        for number, parameter in enumerate(self._parameters):
            self.state[parameter] = deepcopy(state_dict["state"][number])


def _no_moments(parameter: torch.Tensor) -> dict:
    zeros = torch.zeros_like(parameter, requires_grad=False)
    return {"step": 0, "exp_avg": zeros, "exp_avg_sq": zeros.clone()}


class _Process:
    """A new one: model, optimizer and random numbers as they are at the beginning."""

    def __init__(self) -> None:
        torch.manual_seed(_SEED)
        self.module = torch.nn.Linear(_FEATURES, 1).double()
        self.optimizer = Adam(self.module)

    def train(self, step: int) -> None:
        """All that one step does; half of the inputs are dropped, at random."""
        draw = torch.Generator().manual_seed(step)
        inputs, targets = (torch.randn(_SAMPLES, size, generator=draw).double() for size in (_FEATURES, 1))
        outputs = self.module(inputs * (torch.rand(inputs.shape) < 0.5))
        (outputs - targets).square().mean().backward()
        self.optimizer.param_groups[0]["lr"] = _RATE * share(step)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @property
    def parts(self) -> tuple[list, list, list]:
        """Weights, what Adam remembers, random state."""
        weights = [each.detach() for each in self.module.parameters()]
        moments = [each for state in self.optimizer.state.values() for each in state.values()]
        return weights, moments, [torch.get_rng_state()]


class _Parts(NamedTuple):
    """Before each step of the undisturbed run, and after the last one."""

    before: list[tuple[list, list, list]]

    def find(self, parts: Sequence[list]) -> tuple[int, ...]:
        """Before which step each part was like this; 0 where it never was."""
        return tuple(
            next((step for step, known in enumerate(self.before, 1) if _equal(known[place], part)), 0)
            for place, part in enumerate(parts)
        )


def _equal(known: Sequence, part: Sequence) -> bool:
    return len(known) == len(part) and all(
        torch.equal(torch.as_tensor(one), torch.as_tensor(other))
        for one, other in zip(known, part, strict=True)
    )


def _undisturbed(last: int) -> _Parts:
    process, before = _Process(), []
    for step in range(1, last + 1):
        before.append(deepcopy(process.parts))
        process.train(step)
    return _Parts([*before, deepcopy(process.parts)])


class _Disk:
    """What survives."""

    def __init__(self) -> None:
        self._content: Any = None

    def save(self, state: Any) -> None:
        self._content = deepcopy(state)

    def load(self) -> Any:
        return deepcopy(self._content)


class _Start:
    """One start of the run.  ``lost``: the step in which the machine is lost, or None.

    ``steps``: those that were trained.  ``saved``: how many of this start's were done when a checkpoint was
    written.  ``off``: the first step that begins with something else than in the undisturbed run, and before
    which of its steps weights, moments and random numbers were like that; () if there is none.
    """

    def __init__(self, last: int, lost: int | None, undisturbed: _Parts, disk: _Disk):
        self._last, self._lost, self._undisturbed, self._disk = last, lost, undisturbed, disk
        self.process = _Process()
        self.steps: list[int] = []
        self.saved: list[int] = []
        self.off: tuple[int, ...] = ()
        self._is_lost = False

    def train_step(self, step: int) -> None:
        if step not in range(1, self._last + 1):
            raise NoSuchStep(f"train_step({step!r}): this run has steps 1 to {self._last}")
        self._is_lost = self._is_lost or step == self._lost
        self._require_machine()
        step = int(step)
        if not self.off and set(found := self._undisturbed.find(self.process.parts)) != {step}:
            self.off = (step, *found)
        self.steps.append(step)
        self.process.train(step)

    def _require_machine(self) -> None:
        if self._is_lost:
            raise Lost

    def save(self, state: Any) -> None:
        self._require_machine()
        self.saved.append(len(self.steps))
        self._disk.save(state)

    @property
    def value(self) -> tuple:
        return tuple(self.steps[:_NOTED]), tuple(self.saved[:_NOTED]), self.off


def run(function: Callable, last: int, every: int, lost: tuple[int | None, ...]) -> tuple:
    """One start after the other, each lost in a step of its own; of each what ``_Start`` notes."""
    undisturbed, disk, starts = _undisturbed(last), _Disk(), []
    for each in lost:
        start = _Start(last, each, undisturbed, disk)
        process = start.process
        try:
            call(function, process.module, process.optimizer, last, every, start.train_step, start.save,
                 disk.load)  # fmt: skip
        except Lost:
            pass
        starts.append(start.value)
    return tuple(starts)
