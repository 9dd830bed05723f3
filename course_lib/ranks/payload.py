"""Sending functions, arguments and results between a notebook and its ranks.

cloudpickle sends functions and classes typed in a cell by value.  Two things are added: the code keeps its
file name and the cell's text, so that tracebacks in a rank show the learner's lines; and tensors travel
through the CPU, so that reading a result never starts CUDA in the notebook.
"""

from __future__ import annotations

import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, BinaryIO

import cloudpickle


class CannotSend(ValueError):
    """Something that can't be pickled; str() says what and why."""


def dump(value: Any, file: BinaryIO, what: str) -> None:
    """Pickle ``value`` into a file; CannotSend says ``what`` it was if that fails."""
    pickler = _Pickler(file)
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


def write(path: Path, value: Any, what: str) -> None:
    """``dump`` into a file that appears under its name only when it is complete."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        dump(value, file, what)
    os.replace(unfinished, path)


def read(path: Path) -> Any:
    with path.open("rb") as file:
        return load(file)


def to_bytes(value: Any, what: str) -> bytes:
    file = io.BytesIO()
    dump(value, file, what)
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    return load(io.BytesIO(data))


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file):
        super().__init__(file)
        self.sources: dict[str, list[str]] = {}

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        if _is_tensor_on_device(obj):
            return _as_it_is, (obj.detach().cpu(),)
        return super().reducer_override(obj)

    def _reduce_code(self, code: CodeType) -> tuple:
        if not os.path.exists(code.co_filename):  # a cell: its text is known to this process alone
            self.sources[code.co_filename] = linecache.getlines(code.co_filename)
        # cloudpickle replaces the file name by "<dynamic-code>" and has no setting for it.
        return _rebuild_code, (code.co_filename, *cloudpickle.cloudpickle._code_reduce(code))


def _rebuild_code(file_name: str, make: Callable[..., CodeType], arguments: tuple) -> CodeType:
    return make(*arguments).replace(co_filename=file_name)


def _is_tensor_on_device(obj: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor) and obj.device.type not in ("cpu", "meta")


def _as_it_is(value: Any) -> Any:
    return value
