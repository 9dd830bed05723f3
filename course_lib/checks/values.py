"""Values as plain data, for the way between a check and the ranks that run a learner's function.

What a learner's function returns may be anything, also an object that lies when it is compared.  So a rank
hands back a description made of numbers and text only, and the check compares descriptions in its own
process.  Cases are described in the same way, so drawing and comparing them needs no torch.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_LARGE = 2**14  # numbers of a tensor; of a larger one the first PERIOD are kept, and a digest of the others
PERIOD = 1009
_MOST_NUMBERS = 2**26  # of a tensor that a learner's function returns
_SHOWN = 4  # numbers of a tensor in a message
_ITEMS_SHOWN = 8  # of a tuple
_DIGITS_SHOWN = 40
_MOST_ITEMS = 1000  # of a list
_MOST_BITS = 1000  # of an integer: so it can be written out, and compared with floats
_MOST_CHARACTERS = 10_000
_GROUPED_FROM = 10_000  # digits in groups of three, as Python writes them
# By dtype, of those that are given to learners' functions.
ELEMENT_BYTES = {
    "int8": 1, "bfloat16": 2, "float16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """A tensor: ``numbers`` in row-major order; how they lie in memory is ``layout``.

    Layouts: ``contiguous``; ``transposed`` (columns first); ``strided`` (every second element of a larger
    tensor).  Two descriptions are equal whatever their layout.

    In what is expected a number may be None: any will do there.  A tensor of more than 16,384 elements has
    only PERIOD numbers, which are repeated until it is full; if what came from a rank does not repeat, then
    ``digest`` is one of all its elements.  Raises ValueError for a large tensor with more numbers.
    """

    dtype: str
    shape: tuple[int, ...]
    numbers: tuple[float | None, ...]
    layout: str = "contiguous"
    digest: str = ""

    def __post_init__(self) -> None:
        if is_large(self.shape) and len(self.numbers) != PERIOD:
            raise ValueError(f"a tensor of shape {self.shape}: expected {PERIOD} numbers, which are repeated")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor) or self._form != other._form:
            return False
        # repr tells -0.0 from 0.0 and finds nan equal to nan
        return list(map(repr, self.numbers)) == list(map(repr, other.numbers))

    def __hash__(self) -> int:
        return hash(self._form)

    @property
    def all_numbers(self) -> tuple[float, ...]:
        """``numbers`` where none is None, as in all that was given or came back; else raises ValueError."""
        known = tuple(number for number in self.numbers if number is not None)
        if len(known) < len(self.numbers):
            raise ValueError(f"{self}: expected a number for each element")
        return known

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, as of torch's own.  Raises KeyError for a dtype that is given to nobody."""
        return ELEMENT_BYTES[self.dtype] * math.prod(self.shape)

    @property
    def _form(self) -> tuple:
        return self.dtype, self.shape, self.digest

    def __str__(self) -> str:
        return self.text()

    def text(self, first: int = 0, digits: str = "g") -> str:
        """Its numbers from ``first`` on, a few."""
        shown = ["any" if number is None else f"{number:{digits}}"
                 for number in self.numbers[first : first + _SHOWN]]  # fmt: skip
        before = [f"… from element {first} on: {shown.pop(0)}"] if first else []
        after = ["…"] if first + _SHOWN < math.prod(self.shape) else []
        form = f"{self.dtype} {'×'.join(map(str, self.shape)) or 'scalar'}"
        return f"{form} [{', '.join(before + shown + after)}]"


@dataclass(frozen=True)
class Module:
    """A torch.nn.Module by the dotted names of its parameters and buffers.

    A parameter that is a second name of an earlier one (tied) holds that one's name in place of a tensor.
    """

    parameters: Mapping[str, Tensor | str]
    frozen: frozenset[str] = frozenset()
    buffers: Mapping[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        return "a torch.nn.Module"


@dataclass(frozen=True)
class Unknown:
    """Neither a number, text, tensor, module, nor a list or tuple of those: its type's name."""

    type_name: str

    def __str__(self) -> str:
        return f"{'an' if self.type_name[:1] in tuple('aeiouAEIO') else 'a'} {self.type_name}"


def counting_up(dtype: str, shape: tuple[int, ...], first: int, layout: str = "contiguous") -> Tensor:
    """A tensor that holds first, first + 1, ... in row-major order; a large one begins again and again."""
    number = float if "float" in dtype else int
    count = PERIOD if is_large(shape) else math.prod(shape)
    return Tensor(dtype, shape, tuple(map(number, range(first, first + count))), layout)


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of this shape is described by a part of its numbers."""
    return math.prod(shape) > _LARGE


def agree(got: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Equal, and of the same type: True is not 1, and 2.0 is not 2; but 2 will do for 2.0.

    The elements of tensors may be off by ``tolerance``, an absolute number.
    """
    if isinstance(expected, Tensor):
        return _tensors_agree(got, expected, tolerance)
    if (type(got), type(expected)) == (int, float):
        return got == expected
    if type(got) is not type(expected):
        return False
    if isinstance(expected, tuple):
        return len(got) == len(expected) and all(agree(*pair, tolerance) for pair in zip(got, expected))  # noqa: B905
    return got == expected


def _tensors_agree(got: Any, expected: Tensor, tolerance: float) -> bool:
    if not isinstance(got, Tensor) or got._form != expected._form:
        return False
    return all(numbers_agree(*pair, tolerance) for pair in zip(got.numbers, expected.numbers, strict=True))


def numbers_agree(got: float | None, expected: float | None, tolerance: float = 0.0) -> bool:
    """Whether one element of a tensor is as expected."""
    if expected is None or repr(got) == repr(expected):
        return True
    return bool(tolerance) and got is not None and abs(got - expected) <= tolerance


def describe(value: Any, depth: int = 3) -> Any:
    """``value`` as plain data: called in a rank, right after the learner's function has returned."""
    import torch

    value = _plain(value)
    if type(value) in (int, float, bool, str, type(None)):
        return value if _is_short(value) else Unknown(f"very long {type(value).__name__}")
    if type(value) in (tuple, list) and depth and len(value) <= _MOST_ITEMS:
        return tuple(describe(item, depth - 1) for item in value)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and value.numel() <= _MOST_NUMBERS:
        return _describe_tensor(value)
    if isinstance(value, torch.nn.Module):
        return _describe_module(value)
    return Unknown(type(value).__name__[:60])


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's own, since `numpy.prod` and the like return them unasked; an array as a
    list, since a row of a table is as good as a tuple.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    if isinstance(value, numpy.ndarray) and value.size <= _MOST_ITEMS:
        return value.tolist()
    if not isinstance(value, numpy.generic):
        return value
    number = value.item()
    return number if type(number) in (int, float, bool) else value


def _is_short(value: Any) -> bool:
    """Whether it is worth the way to the check."""
    return value.bit_length() <= _MOST_BITS if type(value) is int else len(str(value)) <= _MOST_CHARACTERS


def _describe_tensor(tensor: Any) -> Tensor:
    dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    row = tensor.detach().to("cpu", copy=True).reshape(-1)
    if not is_large(shape):
        return Tensor(dtype, shape, tuple(row.tolist()))
    return Tensor(dtype, shape, tuple(row[:PERIOD].tolist()), digest=_digest(row))


def _digest(row: Any) -> str:
    """Of a large tensor whose numbers do not repeat after PERIOD of them; else ""."""
    import torch

    data, period = row.view(torch.uint8), PERIOD * row.element_size()
    if torch.equal(data[period:], data[:-period]):
        return ""
    return hashlib.sha256(data.numpy()).hexdigest()


def _describe_module(module: Any) -> Module:
    first_names: dict[int, str] = {}
    parameters, frozen = {}, set()
    for name, parameter in module.named_parameters(remove_duplicate=False):
        first = first_names.setdefault(id(parameter), name)
        parameters[name] = describe(parameter) if first == name else first
        if first == name and not parameter.requires_grad:
            frozen.add(name)
    buffers = {name: describe(buffer) for name, buffer in module.named_buffers()}
    return Module(parameters, frozenset(frozen), buffers)


def build(value: Any, device: Any) -> Any:
    """The opposite of ``describe``, tensors on ``device`` and in their layout."""
    if isinstance(value, tuple):
        return tuple(build(item, device) for item in value)
    if isinstance(value, Module):
        return _build_module(value, device)
    return _build_tensor(value, device) if isinstance(value, Tensor) else value


def _build_module(value: Module, device: Any) -> Any:
    import torch

    root = torch.nn.Module()
    parameters: dict[str, Any] = {}
    for name, described in value.parameters.items():
        if isinstance(described, str):
            parameters[name] = parameters[described]
        else:
            tensor = _build_tensor(described, device)
            parameters[name] = torch.nn.Parameter(tensor, requires_grad=name not in value.frozen)
        path, _, leaf = name.rpartition(".")
        _submodule(root, path).register_parameter(leaf, parameters[name])
    for name, described in value.buffers.items():
        path, _, leaf = name.rpartition(".")
        _submodule(root, path).register_buffer(leaf, _build_tensor(described, device))
    return root


def _submodule(module: Any, path: str) -> Any:
    """The module at a dotted path, made where it is not there yet."""
    import torch

    for name in filter(None, path.split(".")):
        if not hasattr(module, name):
            module.add_module(name, torch.nn.Module())
        module = getattr(module, name)
    return module


def _build_tensor(value: Tensor, device: Any) -> Any:
    import torch

    tensor = torch.tensor(value.numbers, dtype=getattr(torch, value.dtype), device=device)
    if is_large(value.shape):
        tensor = tensor.repeat(-(-math.prod(value.shape) // PERIOD))[: math.prod(value.shape)]
    tensor = tensor.reshape(value.shape)
    if value.layout == "transposed":
        return tensor.T.contiguous().T
    if value.layout == "strided":
        return torch.stack([tensor, torch.zeros_like(tensor)], dim=-1)[..., 0]
    return tensor


def tensors(value: Any, depth: int = 3) -> Iterator[Any]:
    """All torch tensors in a value, through lists and tuples, as deep as ``describe`` looks."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)) and depth and len(value) <= _MOST_ITEMS:
        for item in value:
            yield from tensors(item, depth - 1)


def text(value: Any) -> str:
    """A described value as a learner reads it."""
    if isinstance(value, tuple):
        more = ["…"] if len(value) > _ITEMS_SHOWN else []
        items = ", ".join([*map(text, value[:_ITEMS_SHOWN]), *more])
        return f"({items},)" if len(value) == 1 else f"({items})"
    if type(value) is int and abs(value) >= 10**_DIGITS_SHOWN:
        return f"{str(value)[:_DIGITS_SHOWN]}… ({len(str(abs(value)))} digits)"
    if type(value) in (int, float) and abs(value) >= _GROUPED_FROM:
        return f"{value:_}"
    return repr(value)[:80] if isinstance(value, str) else str(value)


def texts(expected: Any, got: Any, tolerance: float = 0.0) -> tuple[str, str]:
    """Both as a learner reads them: tensors from where they differ, in as many digits as that takes."""
    if not isinstance(expected, Tensor) or not isinstance(got, Tensor):
        return text(expected), text(got)
    if (expected.dtype, expected.shape, len(expected.numbers)) != (got.dtype, got.shape, len(got.numbers)):
        return text(expected), text(got)
    pairs = enumerate(zip(got.numbers, expected.numbers, strict=True))
    first = next((number for number, pair in pairs if not numbers_agree(*pair, tolerance)), 0)
    first = first if first >= _SHOWN else 0
    shown = expected.text(first), got.text(first)
    if agree(replace(got, digest=""), replace(expected, digest=""), tolerance):
        differs = ", and other numbers further on" if got.digest != expected.digest else ""
        return shown[0], shown[1] + differs
    return shown if shown[0] != shown[1] else (expected.text(first, ""), got.text(first, ""))
