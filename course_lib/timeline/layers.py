"""Marks when the layers of a module compute, forward and backward.

Backward hooks of modules are not used: for a layer whose input needs no gradient, as the first one's, torch
calls them when its backward pass begins; and they put views around a module's inputs and outputs, which
forbids in-place operations.  Hooks of tensors change nothing.  That of a layer's output is called just before
autograd goes back through the layer, and that of its input when it is through; where the input needs no
gradient, the last one of its parameters' gradients is the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class _Mark:
    """Something of a layer's backward pass was done: of that of one ``visit``, a call, if this is known."""

    layer: str
    time: Any
    visit: object = None
    begins: bool = False

    def holds(self, other: _Mark) -> bool:
        """Whether the other one's layer is a part of this one's."""
        return other.layer.startswith(f"{self.layer}.")


class LayerMarks:
    """Marks from now on, until ``remove()``; ``spans()`` are (label, start mark, end mark)."""

    def __init__(
        self, module: torch.nn.Module | None, layers: Sequence[str] | None, mark: Callable[[], Any]
    ) -> None:
        self._mark = mark
        self._forward: list[tuple[str, Any, Any]] = []
        self._backward: list[_Mark] = []
        self._begun: dict[str, list[Any]] = {}  # forward passes that are not over
        self._handles: list[Any] = []
        self._by_parameters: set[str] = set()  # layers whose parameters tell their end
        named = {} if module is None else _chosen(module, layers)
        for name, layer in named.items():
            self._handles.append(layer.register_forward_pre_hook(self._begin_forward(name)))
            # Always, since checkpointing leaves a module by an exception when it has all that it needs.
            after = layer.register_forward_hook(self._end_forward(name), with_kwargs=True, always_call=True)
            self._handles.append(after)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def spans(self) -> Iterator[tuple[str, Any, Any]]:
        yield from self._forward
        for at, mark in enumerate(self._backward):
            if mark.begins:
                yield f"backward {mark.layer}", self._start_of(at), self._end_of(at)

    def _start_of(self, at: int) -> Any:
        """The mark at ``at``; but where the layer's last part has begun just before it, that one's."""
        layer = self._backward[at]
        while at and self._backward[at - 1].begins and layer.holds(self._backward[at - 1]):
            at -= 1
        return self._backward[at].time

    def _end_of(self, at: int) -> Any:
        """The layer's last mark before autograd goes on to one that is neither a part of it nor around it."""
        layer, last = self._backward[at], None
        for mark in self._backward[at + 1 :]:
            if mark.begins and not layer.holds(mark) and not mark.holds(layer):
                return mark.time if last is None else last
            if mark.visit is layer.visit or (mark.visit is None and mark.layer == layer.layer):
                last = mark.time
        return layer.time if last is None else last

    def _begin_forward(self, name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self._begun.setdefault(name, []).append(self._mark())

        return hook

    def _end_forward(self, name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
            again = torch._C._current_graph_task_id() != -1  # checkpointing, inside a backward pass
            label = f"{'recompute' if again else 'forward'} {name}"
            self._forward.append((label, self._begun[name].pop(), self._mark()))
            inputs = list(_tensors((args, kwargs)))
            outputs = [each for each in _tensors(output) if all(each is not other for other in inputs)]
            if outputs:
                self._follow_back(name, inputs, outputs)
                if not any(tensor.requires_grad for tensor in inputs):
                    self._follow_parameters(name, module)

        return hook

    def _follow_back(self, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        visit = object()
        begin, add = self._begin(name, visit), self._add(name, visit)
        for tensors, hook in ((outputs, begin), (inputs, add)):
            self._handles += [tensor.register_hook(hook) for tensor in tensors if tensor.requires_grad]

    def _follow_parameters(self, name: str, layer: torch.nn.Module) -> None:
        if name not in self._by_parameters and torch.is_grad_enabled():
            self._by_parameters.add(name)
            trained = [each for each in layer.parameters() if each.requires_grad]
            hook = self._add(name)
            self._handles += [each.register_post_accumulate_grad_hook(hook) for each in trained]

    def _begin(self, name: str, visit: object) -> Callable[[torch.Tensor], None]:
        """At the first of several outputs."""
        begun: list[bool] = []

        def hook(_: torch.Tensor) -> None:
            if not begun:
                begun.append(True)
                self._backward.append(_Mark(name, self._mark(), visit, begins=True))

        return hook

    def _add(self, name: str, visit: object = None) -> Callable[[torch.Tensor], None]:
        return lambda _: self._backward.append(_Mark(name, self._mark(), visit))


def _chosen(module: torch.nn.Module, layers: Sequence[str] | None) -> dict[str, torch.nn.Module]:
    named = dict(module.named_modules())
    if layers is None:
        return dict(_children(module))
    for name in layers:
        if not name or name not in named:
            raise ValueError(f"layers has {name!r}: expected names of the module's parts, such as "
                             f"{', '.join(map(repr, dict(_children(module))))}")  # fmt: skip
    return {name: named[name] for name in layers}


def _children(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    for name, child in module.named_children():
        if isinstance(child, torch.nn.ModuleList | torch.nn.ModuleDict | torch.nn.Sequential):
            yield from ((f"{name}.{part}", layer) for part, layer in child.named_children())
        else:
            yield name, child


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
