"""How the runs of part 5 train, in the ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from course_lib.checks.exercise_06 import problem
from course_lib.checks.exercise_06.training import Optimizer, Training, loss_function


def train(name: str, training: Training, arguments: tuple, look: Callable) -> None:
    optimizer = Optimizer(training.module, arguments[problem.RATE], training.watch)
    averager = _RUNS[name](training, arguments)
    for step, batch in enumerate(training.batches, start=1):
        training.watch.log.clear()
        for k, (inputs, targets) in enumerate(batch):
            training.watch.log.append(f"micro-batch {k + 1}")
            averager.is_last = k == len(batch) - 1
            loss = loss_function(training.module(inputs), targets) / len(batch)
            loss.backward()
        averager.finish()
        optimizer.step()
        training.watch.log.append("step of the optimizer")
        optimizer.zero_grad()
        look(training.module, step)


class _Averager:
    def __init__(self, training: Training, arguments: tuple):
        self._buckets = [
            [training.trained[place] for place in bucket] for bucket in self._filled(arguments)
        ]
        self._rows = [torch.cat([each.detach().reshape(-1) for each in bucket]) for bucket in self._buckets]
        self._missing = [len(bucket) for bucket in self._buckets]
        self._handles: list[dist.Work] = []
        self.is_last = False
        for number, bucket in enumerate(self._buckets):
            parts = self._rows[number].split([each.numel() for each in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                self._hook(parameter, number, part.view_as(parameter))

    def _filled(self, arguments: tuple) -> list[list[int]]:
        return problem.filled(arguments)

    def _hook(self, parameter: torch.nn.Parameter, number: int, view: torch.Tensor) -> None:
        parameter.register_post_accumulate_grad_hook(partial(self._put, number, view))

    def _put(self, number: int, view: torch.Tensor, parameter: torch.nn.Parameter) -> None:
        gradient = parameter.grad
        if gradient is not None and gradient is not view:
            view.copy_(gradient)
            parameter.grad = view
        self._arrived(number)

    def _arrived(self, number: int) -> None:
        self._missing[number] -= self.is_last
        if self.is_last and self._missing[number] == 0:
            self._start(number)

    def _start(self, number: int) -> None:
        self._handles.append(dist.all_reduce(self._rows[number], async_op=True))

    def finish(self) -> None:
        for handle in self._handles:
            handle.wait()
        for row in self._rows:
            row /= dist.get_world_size()
        self._handles = []
        self._missing = [len(bucket) for bucket in self._buckets]


class _A(_Averager):
    def _filled(self, arguments: tuple) -> list[list[int]]:
        sizes = problem.sizes(arguments)
        filled = problem.filled(arguments)
        return [each for each in filled if sum(sizes[i] for i in each) >= arguments[problem.BUCKET_BYTES]]


class _B(_Averager):
    def _hook(self, parameter: torch.nn.Parameter, number: int, view: torch.Tensor) -> None:
        parameter.register_hook(partial(self._replace, number, view))

    def _replace(self, number: int, view: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        if not self.is_last:
            return gradient
        view.copy_(gradient)
        self._arrived(number)
        return torch.zeros_like(gradient)  # its mean is added in ``finish``

    def finish(self) -> None:
        super().finish()
        for bucket, row in zip(self._buckets, self._rows, strict=True):
            for parameter, part in zip(bucket, row.split([each.numel() for each in bucket]), strict=True):
                parameter.grad += part.view_as(parameter)


class _C(_Averager):
    def _start(self, number: int) -> None:
        super()._start(number)
        self._handles[-1].wait()


_RUNS = {"A": _A, "B": _B, "C": _C}
