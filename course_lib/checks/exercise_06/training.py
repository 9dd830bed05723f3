"""What a rank does in a check: it builds what is trained, calls the learner's function, and takes notes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from course_lib.checks.exercise_05.training import SGD, row, row_or_none
from course_lib.checks.exercise_06 import order, problem
from course_lib.checks.exercise_06.watching import Watch


class Products(torch.nn.Module):
    """Adds up the product of each layer's weight and inputs, in the order of the layers."""

    def __init__(self, weights: tuple[torch.Tensor, ...], frozen: tuple[int, ...], layers: tuple):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(weight.clone(), requires_grad=number not in frozen)
            for number, weight in enumerate(weights)
        )
        self._layers = layers

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        total = inputs.new_zeros(len(inputs))
        columns = inputs.split([self.weights[number].numel() for number, _ in self._layers], dim=-1)
        for (number, checkpointed), own in zip(self._layers, columns, strict=True):
            layer = partial(_add_product, self.weights[number])
            total = _Checkpointed.apply(layer, total, own) if checkpointed else layer(total, own)
        return total


def _add_product(weight: torch.Tensor, total: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    return total + (weight.reshape(-1) * inputs).sum(dim=-1)


class _Checkpointed(torch.autograd.Function):
    """As torch's ``checkpoint(…, use_reentrant=True)``, which would import much first, for a second.

    The layer is computed again in the backward pass, with a backward pass of its own inside of it.
    """

    @staticmethod
    def forward(ctx, layer, total, inputs):
        ctx.layer = layer
        ctx.save_for_backward(total, inputs)
        return layer(total, inputs)

    @staticmethod
    def backward(ctx, gradient):
        total, inputs = ctx.saved_tensors
        total = total.detach().requires_grad_()
        with torch.enable_grad():
            (ctx.layer(total, inputs) * gradient).sum().backward()
        return None, total.grad, None


def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs * targets).mean()


class Optimizer(SGD):
    """Plain SGD that tells the watch when it steps."""

    def __init__(self, module: torch.nn.Module, rate: float, watch: Watch):
        super().__init__(module, rate)
        self._watch = watch

    def step(self, closure: Any = None) -> Any:
        self._watch.optimizer_steps()
        super().step(closure)
        self._watch.next_step()


class Training:
    """A module that is watched, made from what a case begins with."""

    def __init__(self, arguments: tuple):
        self._arguments = arguments
        weights, frozen, layers = arguments[: problem.INPUTS]
        self.module = Products(weights, frozen, layers)
        self.trained = [each for each in self.module.parameters() if each.requires_grad]
        self.watch = Watch(self.trained)
        for number in problem.trained(arguments):
            hook = partial(self._note, str(number))
            self.module.weights[number].register_post_accumulate_grad_hook(hook)
        counts = problem.firings(arguments)
        self.firings = {each: counts[place] for place, each in enumerate(self.trained)}

    def _note(self, name: str, _: torch.nn.Parameter) -> None:
        self.watch.gradient(name)

    @property
    def batches(self) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
        """The micro-batches of each step: pairs of inputs and targets."""
        inputs, targets = self._arguments[problem.INPUTS], self._arguments[problem.TARGETS]
        return [
            [(one.clone(), other.clone()) for one, other in zip(*of_step, strict=True)]
            for of_step in zip(inputs, targets, strict=True)
        ]

    @property
    def bucket_bytes(self) -> int:
        return self._arguments[problem.BUCKET_BYTES]

    def plan(self) -> order.Plan:
        sizes, filled = problem.sizes(self._arguments), problem.filled(self._arguments)
        return order.Plan(
            dist.get_world_size(),
            self._arguments[problem.INPUTS].shape[1],
            tuple(sizes),
            tuple(sum(sizes[place] for place in bucket) for bucket in filled),
            tuple(problem.full_after(self._arguments)),
            len(problem.firing(self._arguments)),
        )


def call(function: Callable, *arguments) -> object:
    """The line in which a learner's function is called; reports know it by this name."""
    return function(*arguments)


def collect(function: Callable, *arguments) -> tuple:
    """Part 3: for each backward pass, what ``on_full`` was called with, and the gradients at its end.

    A pass has the numbers, the rows, and after how many of its hooks each call came: a tuple for each.
    """
    training, calls, passes = Training(arguments), [], []

    def on_full(number: int, row: torch.Tensor) -> None:
        held = row.detach().clone() if isinstance(row, torch.Tensor) else row
        calls.append((number, held, training.watch.gradients))

    call(function, training.module, training.bucket_bytes, training.firings, on_full)
    for batch in training.batches:
        for inputs, targets in batch:
            loss_function(training.module(inputs), targets).backward()
            numbers, rows, counts = zip(*calls, strict=True) if calls else ((), (), ())
            passes.append((numbers, rows, counts, row_or_none([each.grad for each in training.trained])))
            calls.clear()
            training.watch.gradients = 0
        for each in training.trained:
            each.grad = None
    return tuple(passes)


def train(function: Callable, *arguments) -> tuple:
    """Part 4: the gradients with which the optimizer stepped, the weights at the end, and a fault or "".

    The last one is a pair, see ``order``.
    """
    training = Training(arguments)
    optimizer = Optimizer(training.module, arguments[problem.RATE], training.watch)
    with training.watch as watch:
        call(
            function, training.module, training.batches, loss_function, optimizer, training.bucket_bytes,
            training.firings,
        )  # fmt: skip
    steps = watch.steps if watch.steps[-1] else watch.steps[:-1]
    weights = row(training.trained)
    return tuple(optimizer.used), weights, order.fault(steps, training.plan())
