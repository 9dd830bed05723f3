"""Sending functions, arguments and results between a notebook and its ranks.

cloudpickle sends functions and classes typed in a cell by value.  Three things are added: the code keeps its
file name and the cell's text, so that tracebacks in a rank show the learner's lines; tensors travel through
the CPU, so that reading a result never starts CUDA in the notebook; and modules of a class of their own are
imported again.  (A function that says ``config`` and ``torch`` takes all of torch's modules of that name
along, since cloudpickle can't know what ``config`` is an attribute of.)
"""

from __future__ import annotations

import importlib
import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

import cloudpickle

from course_lib.ranks.frames import Line

if TYPE_CHECKING:
    import torch


class CannotSend(ValueError):
    """Something that can't be pickled; str() says what and why."""


def dump(value: Any, file: BinaryIO, what: str, compact: bool = False) -> None:
    """Pickle ``value`` into a file; CannotSend says ``what`` it was if that fails.

    ``compact``: of a tensor that is a small part of a large one, send that part alone.
    """
    pickler = _Pickler(file, compact)
    try:
        pickler.dump(value)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # pickling runs foreign code, which may raise anything
        raise CannotSend(f"{what} can't be sent to another process: {error}") from None
    pickle.dump(pickler.sources, file)


def load(file: BinaryIO) -> Any:
    """The value that ``dump`` put there; the text of its cells becomes known to tracebacks."""
    value = pickle.load(file)
    for name, lines in pickle.load(file).items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return value


def write(path: Path, value: Any, what: str, compact: bool = False) -> None:
    """``dump`` into a file that appears under its name only when it is complete."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        dump(value, file, what, compact)
    os.replace(unfinished, path)


def read(path: Path) -> Any:
    with path.open("rb") as file:
        return load(file)


def read_plain(path: Path) -> Any:
    """``read`` from a process that is not trusted: text, numbers, lists, dicts, and lines of tracebacks.

    Raises pickle.UnpicklingError for anything else.
    """
    with path.open("rb") as file:
        return _PlainUnpickler(file).load()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (Line.__module__, Line.__qualname__):
            return Line
        raise pickle.UnpicklingError(f"{module}.{name}: expected plain data")


def to_bytes(value: Any, what: str) -> bytes:
    file = io.BytesIO()
    dump(value, file, what)
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    return load(io.BytesIO(data))


def culprit(function: Callable, args: tuple, kwargs: dict) -> str:
    """Which argument or variable of a call can't be sent, in words; "" if none can be singled out."""
    parts = [(f"argument {number}", value) for number, value in enumerate(args, start=1)]
    parts += [(f"argument {name}", value) for name, value in kwargs.items()]
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is not None:
        parts += [(f"the variable {name}", names[name]) for name in code.co_names if name in names]
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        parts += [(f"the variable {name}", cell.cell_contents) for name, cell in cells]
    for name, value in parts:
        try:
            to_bytes(value, name)
        except CannotSend:
            return name
    return ""


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: BinaryIO, compact: bool):
        super().__init__(file)
        self._compact = compact
        self.sources: dict[str, list[str]] = {}

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        if _is_tensor_on_device(obj):
            return _as_it_is, (_copied(obj),)
        if self._compact and _is_small_part(obj):
            return _as_it_is, (_copied(obj),)
        if _is_importable(obj):
            return importlib.import_module, (obj.__name__,)
        return super().reducer_override(obj)

    def _reduce_code(self, code: CodeType) -> tuple:
        if not os.path.exists(code.co_filename):  # a cell: its text is known to this process alone
            self.sources[code.co_filename] = linecache.getlines(code.co_filename)
        # cloudpickle replaces the file name by "<dynamic-code>" and has no setting for it.
        return _rebuild_code, (code.co_filename, *cloudpickle.cloudpickle._code_reduce(code))


def _rebuild_code(file_name: str, make: Callable[..., CodeType], arguments: tuple) -> CodeType:
    return make(*arguments).replace(co_filename=file_name)


def _is_importable(obj: Any) -> bool:
    """A module whose class cloudpickle doesn't know, as torch.ops and torch's config modules."""
    is_special = isinstance(obj, ModuleType) and type(obj) is not ModuleType
    return is_special and sys.modules.get(obj.__name__) is obj


def _is_tensor_on_device(obj: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor) and obj.device.type not in ("cpu", "meta")


def _is_small_part(obj: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None or type(obj) is not torch.Tensor or obj.layout != torch.strided or obj.is_meta:
        return False
    return obj.untyped_storage().nbytes() > 2 * obj.nbytes + 4096


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU, without the graph; a parameter stays one, and so does what requires a gradient."""
    torch = sys.modules["torch"]
    copy = tensor.detach().to("cpu", copy=True)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, tensor.requires_grad)
    return copy.requires_grad_(tensor.requires_grad)


def _as_it_is(value: Any) -> Any:
    return value
