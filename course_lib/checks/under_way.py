"""Watches the memory of messages that are under way: until ``wait()`` it is not the program's.

A result may be right all the same, by luck: the message was quick.  So three things are done.  Operators are
seen as they run, and one that reads what is still being received is noted.  What is sent is compared with
what it was when it was posted.  And memory that will be received into is filled with numbers that nobody
expects, so that what is read by other means than an operator is wrong.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from course_lib.checks.addresses import overlap, span
from course_lib.checks.messages import CHANGED, READ, SHARED
from course_lib.ranks.operations import COLLECTIVES

_MESSAGES = ("send", "recv_", "recv_any_source_")
# Operators that look at a tensor's form only.
_READ_NOTHING = (
    *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
    *("new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full"),
)


@dataclass(frozen=True)
class _Posted:
    kind: str
    tensors: Sequence[torch.Tensor]
    spans: Sequence[range]
    checksum: int


class UnderWay(TorchDispatchMode):
    """While this is entered, operators are seen.

    ``faults``: what was done to a message's memory, by the message's number.  ``collectives``: the names of
    torch.distributed's other operations, in order; ``collective_bytes``: of the tensors that each fills.
    """

    def __init__(self) -> None:
        super().__init__()
        self._posted: dict[int, _Posted] = {}
        self.faults: dict[int, str] = {}
        self.collectives: list[str] = []
        self.collective_bytes: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch's own switch.  To keep its compiler out of this class it would import it, for seconds."""
        return False

    def post(self, number: int, kind: str, tensors: Sequence[torch.Tensor]) -> None:
        """A message is about to be posted."""
        spans = [span(tensor) for tensor in tensors]
        self._note_meetings(number, kind, spans)
        with _disable_current_modes(), torch.no_grad():
            if kind == "recv" and number not in self.faults:
                for tensor in tensors:
                    tensor.fill_(_unexpected(tensor.dtype))
            self._posted[number] = _Posted(kind, tensors, spans, _checksum(tensors))

    def finish(self, number: int) -> None:
        """A message is waited for: from now on its memory may be used."""
        posted = self._posted.pop(number, None)
        if posted is not None and posted.kind == "send":
            with _disable_current_modes():
                if _checksum(posted.tensors) != posted.checksum:
                    self.faults.setdefault(number, CHANGED)

    def _note_meetings(self, number: int, kind: str, spans: Sequence[range]) -> None:
        """What a new message does to the memory of those under way."""
        for other, posted in self._meeting(spans):
            if posted.kind == "recv":
                self.faults.setdefault(other, READ if kind == "send" else SHARED)
            elif kind == "recv":
                self.faults.setdefault(other, CHANGED)
                self.faults.setdefault(number, SHARED)

    def _meeting(self, spans: Sequence[range]) -> list[tuple[int, _Posted]]:
        return [
            (number, posted)
            for number, posted in self._posted.items()
            if any(overlap(one, other) for one in spans for other in posted.spans)
        ]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name, is_communication, reads = _looked_at(func)
        if is_communication:
            self._note_collective(name, args)
        elif self._posted and reads:
            self._note_reading(tree_leaves((args, kwargs)))
        return func(*args, **kwargs)

    def _note_collective(self, name: str, arguments: tuple) -> None:
        if name not in _MESSAGES:
            filled = tree_leaves(arguments[:1])
            self.collectives.append(COLLECTIVES.get(name.removesuffix("_"), name))
            self.collective_bytes.append(
                sum(tensor.nbytes for tensor in filled if isinstance(tensor, torch.Tensor))
            )

    def _note_reading(self, arguments: Sequence[object]) -> None:
        tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        spans = [span(tensor) for tensor in tensors if tensor.layout == torch.strided]
        for number, posted in self._meeting(spans):
            if posted.kind == "recv":
                self.faults.setdefault(number, READ)


@functools.cache  # a training step has thousands of operators
def _looked_at(operator: Any) -> tuple[str, bool, bool]:
    """An operator's name, whether it communicates, and whether it reads the elements of tensors."""
    name = operator.name().partition("::")[2].partition(".")[0]
    is_communication = operator.namespace == "c10d" or name in COLLECTIVES.values()
    return name, is_communication, not operator.is_view and name not in _READ_NOTHING


def _unexpected(dtype: torch.dtype) -> float:
    if dtype == torch.bool:
        return True
    return float("nan") if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).max // 3


def _checksum(tensors: Sequence[torch.Tensor]) -> int:
    checksum = 0
    for tensor in tensors:
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        checksum = zlib.crc32(data.cpu().numpy().data, checksum)
    return checksum
