"""What a rank does in a check: it builds what is trained, calls the learner's function, and takes notes.

What comes back is a tuple: the gradients with which the optimizer has stepped, each as one row, or None where
a parameter had none; the weights at the end, as one row; and of how many samples activations were kept at
the same time at most.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from course_lib.checks.exercise_05 import problem


class Kept:
    """Counts the samples whose activations are in memory; ``most`` is at least one micro-batch.

    ``dtypes`` are those of outputs.  Copies of a module have it in common.
    """

    def __init__(self, micro_batch: int) -> None:
        self.now, self.most = 0, micro_batch
        self.dtypes: set[str] = set()

    def __deepcopy__(self, _: dict) -> Kept:
        return self

    def add(self, samples: int) -> None:
        self.now += samples
        self.most = max(self.most, self.now)


class _Activations:
    """Those of one forward pass: in memory until the last graph that holds them has let go of them."""

    def __init__(self, kept: Kept, samples: int):
        self._kept, self._samples = kept, samples
        kept.add(samples)

    def __del__(self) -> None:
        self._kept.add(-self._samples)


class _Keep(torch.autograd.Function):
    """Has its graph hold activations, until the backward pass has used them or nobody can ask for it.

    Under torch.func a forward pass stands in several graphs, which have the activations in common.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(outputs, activations):
        return outputs.view_as(outputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.activations = inputs

    @staticmethod
    def backward(ctx, gradient):
        ctx.activations = None
        return gradient, None


class Linear(torch.nn.Module):
    """outputs = weight · (frozen · inputs) + bias"""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, frozen: torch.Tensor | None, kept: Kept):
        super().__init__()
        if frozen is not None:
            self.frozen = torch.nn.Parameter(frozen.clone(), requires_grad=False)
        self.weight, self.bias = (torch.nn.Parameter(tensor.clone()) for tensor in (weight, bias))
        self._kept = kept

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inputs = inputs * self.frozen if hasattr(self, "frozen") else inputs
        # torch's own matrix product takes milliseconds in bfloat16, even if it is as small as this one.
        outputs = (inputs.unsqueeze(-2) * self.weight).sum(dim=-1) + self.bias
        if not outputs.requires_grad:
            return outputs
        self._kept.dtypes.add(str(outputs.dtype).removeprefix("torch."))
        return _Keep.apply(outputs, _Activations(self._kept, len(inputs)))


class SGD(torch.optim.Optimizer):
    """Plain SGD that notes with which gradients it steps: in ``used``, None where a parameter had none.

    torch's own would import torch's compiler when it is made, which takes a second in each rank that was not
    forked.
    """

    def __init__(self, module: torch.nn.Module, rate: float):
        self.defaults = {"lr": rate}
        self.state = defaultdict(dict)
        self.param_groups = [{"params": list(module.parameters()), "lr": rate}]
        self.used: list[torch.Tensor | None] = []

    # Any, since torch's hints promise the loss of a closure, and here none is called.
    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        trained = [(parameter, group["lr"]) for group in self.param_groups
                   for parameter in group["params"] if parameter.requires_grad]  # fmt: skip
        gradients = [parameter.grad for parameter, _ in trained]
        self.used.append(row_or_none(gradients))
        for (parameter, rate), gradient in zip(trained, gradients, strict=True):
            if gradient is not None:
                parameter.sub_(gradient, alpha=float(rate))

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad = None if set_to_none else torch.zeros_like(parameter.grad)


class Training:
    """A model and its optimizer, made from what each case begins with."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, frozen: torch.Tensor | None,
                 inputs: torch.Tensor, targets: torch.Tensor, rate: float):  # fmt: skip
        self.kept = Kept(inputs.shape[-2])
        self.module = Linear(weight, bias, frozen, self.kept)
        self.optimizer = SGD(self.module, rate)

    @property
    def value(self) -> tuple:
        return tuple(self.optimizer.used), row([self.module.weight, self.module.bias]), self.kept.most


def row(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All their elements, one after the other."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def row_or_none(tensors: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """The same, or None if one of them is None."""
    there = [tensor for tensor in tensors if tensor is not None]
    return row(there) if len(there) == len(tensors) else None


def stream(function: Callable, *arguments) -> tuple:
    """Part 1: one call with all micro-batches."""
    *begin, accumulation_steps = arguments
    training, loss_function = Training(*begin), getattr(torch.nn.functional, problem.MSE)
    micro_batches = _pairs(arguments[problem.INPUTS], arguments[problem.TARGETS])
    call(function, training.module, micro_batches, accumulation_steps, loss_function, training.optimizer)
    return training.value


def steps(function: Callable, loss: str, *arguments) -> tuple:
    """Parts 2 and 3: one call for each step."""
    training, loss_function = Training(*arguments[: problem.MORE]), getattr(torch.nn.functional, loss)
    more = arguments[problem.MORE :]
    for batch in zip(arguments[problem.INPUTS], arguments[problem.TARGETS], strict=True):
        call(function, training.module, _pairs(*batch), loss_function, training.optimizer, all_reduce, *more)
    return training.value


def in_fp32(function: Callable, weight: torch.Tensor, bias: torch.Tensor, *pairs: torch.Tensor) -> tuple:
    """Part 4: what the function returns in place of gradients, and what it cost.

    That is: the weights as they are then, samples as in the other parts, in which types outputs were
    computed, and how many times the gradients in float32 all new tensors took when the last micro-batch
    came; 0 for what a sum and its making need.
    """
    kept = Kept(1)
    module, micro_batches = Linear(weight, bias, None, kept), _pairs(*pairs)
    loss_function = _Product(len(micro_batches))
    returned = call(function, module, micro_batches, loss_function)
    weights = row([module.weight, module.bias])
    copies = loss_function.grown // (4 * len(weights))
    is_much = len(micro_batches) > _MANY and copies > len(micro_batches) // 4
    return returned, weights, kept.most, " and ".join(sorted(kept.dtypes)), copies if is_much else 0


_MANY = 16  # micro-batches: with fewer, K times the gradients can't be told from what a sum needs


class _Product:
    """A loss whose gradient is exact in bfloat16, where inputs and targets have few digits.

    ``grown``: by how many bytes the tensors in memory have grown until its last call.
    """

    def __init__(self, calls: int):
        self._calls, self.grown = calls, 0
        self._before = _tensor_bytes() if calls > _MANY else 0

    def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self._calls -= 1
        if self._calls == 0 and self._before:
            self.grown = _tensor_bytes() - self._before
        return (outputs * targets).sum(dim=-1).mean()


def _tensor_bytes() -> int:
    """Of all tensors that Python code can reach."""
    gc.collect()  # a cycle that nobody can reach is no fault
    storages = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            with suppress(NotImplementedError, RuntimeError):  # those of torch.func have none
                storage = thing.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def call(function: Callable, *arguments) -> object:
    """The line in which a learner's function is called; reports know it by this name."""
    return function(*arguments)


def all_reduce(tensor: torch.Tensor) -> None:
    """Sum a tensor over all ranks, in place."""
    dist.all_reduce(tensor)


def _pairs(inputs: torch.Tensor, targets: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(one.clone(), other.clone()) for one, other in zip(inputs, targets, strict=True)]
