"""Notes what a rank does, and in which order: gradients that come, all-reduces, waits, the optimizer's steps.

Overlap can be seen without a clock.  What matters is how many gradients were there when an all-reduce started
and when it was waited for, and what was done to its memory in between.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.checks.addresses import overlap, span
from course_lib.checks.exercise_06.order import AllReduce

_PUT_IN = ("copy_", "add_", "zero_", "fill_")
_LOOKS_ONLY = ("empty_like", "zeros_like", "ones_like", "new_empty", "new_zeros", "new_ones")


@dataclass(eq=False)
class _Started:
    """An all-reduce that nobody has waited for yet."""

    work: dist.Work
    spans: Sequence[range]
    index: int  # in its step


@dataclass(eq=False)
class Watch(TorchDispatchMode):
    """While this is entered, it notes what happens; ``steps`` has a list for each step of the optimizer.

    ``gradients`` counts the hooks that have fired in this step.
    """

    weights: Sequence[torch.Tensor]
    gradients: int = 0
    steps: list[list[AllReduce]] = field(default_factory=lambda: [[]])
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._started: list[_Started] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in ``under_way``

    def __enter__(self) -> Watch:
        group, work = dist.ProcessGroup, dist.Work
        self._patches = [
            mock.patch.object(group, "allreduce", self._noting_start(group.allreduce)),
            mock.patch.object(work, "wait", self._noting_wait(work.wait, lambda answer: True)),
            mock.patch.object(work, "is_completed", self._noting_wait(work.is_completed, bool)),
        ]
        for patch in self._patches:
            patch.start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for patch in reversed(self._patches):
            patch.stop()

    # --- told by what is trained ---

    def gradient(self, name: str) -> None:
        """A hook has fired."""
        self.gradients += 1
        self.log.append(f"gradient {name}")

    def optimizer_steps(self) -> None:
        for started in self._started:
            self._change(started, under_way_at_step=True)

    def next_step(self) -> None:
        self._started = []
        self.gradients = 0
        self.steps.append([])

    # --- seen ---

    def _noting_start(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def noted(group: dist.ProcessGroup, tensors: Sequence[torch.Tensor], *args, **named):
            spans = [span(tensor) for tensor in tensors]
            of_weights = any(overlap(one, span(weight)) for one in spans for weight in self.weights)
            size = sum(tensor.nbytes for tensor in tensors)
            self.steps[-1].append(AllReduce(size, self.gradients, of_weights=of_weights))
            self.log.append(f"start of {size} bytes")
            work = method(group, tensors, *args, **named)
            self._started.append(_Started(work, spans, len(self.steps[-1]) - 1))
            return work

        return noted

    def _noting_wait(self, method: Callable, is_over: Callable[[Any], bool]) -> Callable:
        @functools.wraps(method)
        def noted(work: dist.Work, *args, **named):
            answer = method(work, *args, **named)
            for started in [each for each in self._started if each.work is work and is_over(answer)]:
                self._started.remove(started)
                self._change(started, waited_at=self.gradients)
                self.log.append(f"wait for {self.steps[-1][started.index].bytes} bytes")
            return answer

        return noted

    def _change(self, started: _Started, **seen: Any) -> None:
        of_step = self.steps[-1]
        of_step[started.index] = replace(of_step[started.index], **seen)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().partition("::")[2].partition(".")[0]
        if self._started and func.namespace != "c10d" and not func.is_view and name not in _LOOKS_ONLY:
            self._note_touching(args, kwargs, puts_in=name in _PUT_IN)
        return func(*args, **kwargs)

    def _note_touching(self, args: tuple, kwargs: dict, puts_in: bool) -> None:
        leaves = tree_leaves((args, kwargs))
        spans = [span(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for started in self._started:
            touched = [any(overlap(one, other) for other in started.spans) for one in spans]
            if any(touched):
                self._change(started, touched="written" if puts_in and touched[0] else "read")
