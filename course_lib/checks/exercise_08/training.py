"""What a rank does in a check: it builds what is trained, calls the learner's function, and takes notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch

from course_lib.checks.exercise_05 import problem, training
from course_lib.checks.exercise_05.training import all_reduce
from course_lib.checks.exercise_08.schedule import BEFORE, FIRST, MOST, share


class SGD(training.SGD):
    """Two groups, as an optimizer has whose weights decay and whose biases do not.  Notes its gradients."""

    def __init__(self, weight: torch.nn.Parameter, bias: torch.nn.Parameter, rate: float):
        self.defaults, self.state = {"lr": rate}, defaultdict(dict)
        self.param_groups = [{"params": [weight], "lr": rate}, {"params": [bias], "lr": rate}]
        self.used: list[torch.Tensor | None] = []


class NoSuchStep(LookupError):
    """A step that is not to be trained."""


_MOST_LOSSES = 1000


def train(function: Callable, *arguments: Any) -> tuple:
    """Part 1: one call for all steps.

    What comes back: the gradients with which the optimizer has stepped, the weights at the end, the losses,
    and of how many samples activations were kept at the same time at most.
    """
    weight, bias, frozen, inputs, targets, rate = arguments[: problem.MORE]
    first, most = arguments[FIRST], arguments[MOST]
    kept = training.Kept(inputs.shape[-2])
    module = training.Linear(weight, bias, frozen, kept)
    optimizer = SGD(module.weight, module.bias, BEFORE * rate)
    steps = range(first, first + len(inputs))

    def batch_of(step: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        if step not in steps:
            raise NoSuchStep(f"batch_of({step!r}): this call is for steps {steps[0]} to {steps[-1]}")
        place = steps.index(step)
        return [_without_padding(*pair) for pair in zip(inputs[place], targets[place], strict=True)]

    def learning_rate(step: int) -> float:
        return rate * share(step)

    losses = call(function, module, optimizer, steps, batch_of, learning_rate, all_reduce, most)
    weights = training.row([module.weight, module.bias])
    return tuple(optimizer.used), weights, (_as_row(losses), kept.most)


def _without_padding(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    there = targets != problem.IGNORED
    return inputs[there], targets[there]


def _as_row(losses: Any) -> Any:
    """Numbers, or tensors of one number, in one tensor; what is something else as it is."""
    if isinstance(losses, torch.Tensor) and losses.dim() == 1:
        losses = list(losses)
    if not isinstance(losses, (list, tuple)) or len(losses) > _MOST_LOSSES:
        return losses
    if not all(map(_is_number, losses)):
        return losses
    try:
        return torch.tensor([float(loss) for loss in losses], dtype=torch.float64)
    except (OverflowError, RuntimeError):  # too large, or complex
        return losses


def _is_number(loss: Any) -> bool:
    return loss.numel() == 1 if isinstance(loss, torch.Tensor) else isinstance(loss, Real)


def call(function: Callable, *arguments: Any) -> Any:
    """The line in which a learner's function is called; reports know it by this name."""
    return function(*arguments)
