"""Marks when the layers of a module compute, forward and backward.

Backward hooks of modules are not used: for a layer whose input needs no gradient, as the first one's, torch
calls them when its backward pass begins; and they put views around a module's inputs and outputs, which
forbids in-place operations.  Hooks of tensors change nothing.  That of a layer's output is called just before
autograd goes back through the layer, and the last of its input's and its parameters' when that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


class LayerMarks:
    """Marks from now on, until ``remove()``; ``spans()`` are (label, start mark, end mark)."""

    def __init__(
        self, module: torch.nn.Module | None, layers: Sequence[str] | None, mark: Callable[[], Any]
    ) -> None:
        self._mark = mark
        self._forward: list[tuple[str, Any, Any]] = []
        self._backward: list[tuple[frozenset[str], bool, Any]] = []  # layers, whether they begin, mark
        self._begun: dict[str, list[Any]] = {}  # forward passes that are not over
        self._handles: list[Any] = []
        named = {} if module is None else _chosen(module, layers)
        for name, layer in named.items():
            self._handles.append(layer.register_forward_pre_hook(self._begin_forward(name)))
            self._handles.append(layer.register_forward_hook(self._end_forward(name), with_kwargs=True))
        for parameter, names in _owners(named).items():
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._on_backward(names)))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def spans(self) -> Iterator[tuple[str, Any, Any]]:
        yield from self._forward
        for at, (names, begins, start) in enumerate(self._backward):
            if begins:
                (name,) = names
                yield f"backward {name}", start, self._end_of(name, at)

    def _end_of(self, name: str, at: int) -> Any:
        """The layer's last mark before autograd goes on to another layer that is no part of this one."""
        last = None
        for names, begins, mark in self._backward[at + 1 :]:
            if begins and not all(other.startswith(f"{name}.") for other in names):
                return mark if last is None else last
            last = mark if name in names else last
        return self._backward[at][2] if last is None else last

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
            self._follow_back(name, inputs if outputs else [], outputs)

        return hook

    def _follow_back(self, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        names, has_begun = frozenset([name]), False

        def begin(_: torch.Tensor) -> None:
            nonlocal has_begun
            if not has_begun:  # at the first of several outputs
                has_begun = True
                self._backward.append((names, True, self._mark()))

        for tensor in outputs:
            self._handles += [tensor.register_hook(begin)] if tensor.requires_grad else []
        for tensor in inputs:
            self._handles += [tensor.register_hook(self._on_backward(names))] if tensor.requires_grad else []

    def _on_backward(self, names: frozenset[str]) -> Callable[[torch.Tensor], None]:
        return lambda _: self._backward.append((names, False, self._mark()))


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


def _owners(named: dict[str, torch.nn.Module]) -> dict[torch.nn.Parameter, frozenset[str]]:
    """Each trained parameter with the layers that have it: several, if it is shared."""
    owners: dict[torch.nn.Parameter, set[str]] = {}
    for name, layer in named.items():
        for parameter in layer.parameters():
            if parameter.requires_grad:
                owners.setdefault(parameter, set()).add(name)
    return {parameter: frozenset(names) for parameter, names in owners.items()}


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
