"""Part 1: the bytes of a module's parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping

from course_lib.checks import mistakes
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.values import Module, Tensor, counting_up


def _tensors(dtype: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return {name: counting_up(dtype, shape, 1) for name, shape in shapes.items()}


_LINEAR = _tensors(
    "float32", {"up.weight": (12, 7), "up.bias": (12,), "down.weight": (7, 12), "down.bias": (7,)}
)
_EMBEDDING = _tensors("float32", {"embedding.weight": (20, 6), "position.weight": (8, 6)})
_TIED: dict[str, Tensor | str] = {**_EMBEDDING, "head.weight": "embedding.weight"}
_NORM = _tensors("float32", {"norm.weight": (5,), "norm.bias": (5,)})
_RUNNING = {
    **_tensors("float32", {"norm.running_mean": (5,), "norm.running_var": (5,)}),
    **_tensors("int64", {"norm.num_batches_tracked": ()}),
}
_HALF = _tensors("bfloat16", {"attention.weight": (9, 9), "mlp.weight": (11, 9)})
_BASE = _tensors("int8", {"base.weight": (10, 10)})
_ADAPTER = _tensors("bfloat16", {"adapter.down": (2, 10), "adapter.up": (10, 2)})

_SECRET = "float32, bfloat16 and int8 layers"
MODULES = {
    "two linear layers, float32": Module(_LINEAR),
    "a head tied to the embedding": Module(_TIED),
    "a batch norm with its running statistics": Module({**_LINEAR, **_NORM}, buffers=_RUNNING),
    "bfloat16 layers and a float32 norm": Module({**_HALF, **_NORM}),
    "a frozen int8 layer with a bfloat16 adapter": Module({**_BASE, **_ADAPTER}, frozenset(_BASE)),
    "tied, frozen, and in two dtypes": Module({**_TIED, **_HALF}, frozenset({"embedding.weight"})),
    "no parameters, only buffers": Module({}, buffers=_RUNNING),
    _SECRET: Module({**_HALF, **_LINEAR, **_BASE}, frozenset(_BASE)),
}


def _draw(ranks: int) -> list[Case]:
    return [
        Case.alone(title, (module,), _unique_bytes(module), title == _SECRET)
        for title, module in MODULES.items()
    ]


def _unique_bytes(module: Module) -> int:
    return _size(_unique(module))


def _unique(module: Module) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in module.parameters.items() if isinstance(tensor, Tensor)}


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


# --- What mistakes look like ---


def _every_name(module: Module) -> int:
    tensors = _unique(module)
    second_names = [first for first in module.parameters.values() if isinstance(first, str)]
    return _size(tensors) + sum(_size({name: tensors[name]}) for name in second_names)


def _elements(module: Module) -> int:
    return sum(math.prod(tensor.shape) for tensor in _unique(module).values())


def _trainable_only(module: Module) -> int:
    return _size({name: tensor for name, tensor in _unique(module).items() if name not in module.frozen})


def _module_altered(wrong: Compared) -> str | None:
    if wrong.played[0].arguments != wrong.case.arguments[0]:
        return "The function alters the module that it is given, and it should only look at it."
    return None


PARAMETER_BYTES = Part(
    "parameter_bytes(module)",
    _draw,
    (
        _module_altered,
        *mistakes.in_bytes(
            AsIf(
                _every_name,
                "A tied weight is counted twice: it has two names, but it is one tensor, once in memory.",
            ),
            AsIf(
                lambda module: _unique_bytes(module) + _size(module.buffers),
                "Buffers are counted, too, such as the running statistics of a batch norm. They take memory, "
                "but they are no parameters: nothing trains them.",
            ),
            AsIf(
                _elements,
                "This is the number of elements, and bytes are asked for: how many has one element?",
            ),
            AsIf(
                lambda module: 4 * _elements(module),
                "Every element is taken as four bytes, and only float32 has four: ask each tensor.",
            ),
            AsIf(
                _trainable_only,
                "Frozen parameters are left out. They have no gradient, but they are in memory all the same.",
            ),
        ),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
