"""Notes every communication operation of a rank in its logbook, and compares it with the other ranks'.

torch.distributed ends in the methods of ``ProcessGroup`` and in ``Work.wait``; these are wrapped, so that
all its functions are seen, called under any name.  What the wrappers add is two things:

* a hang can be explained from the logbooks: what each rank waits for, and in which of the learner's lines;
* before data moves, an operation is compared with its counterpart on the other ranks.  gloo itself aborts
  the process when lengths differ, or silently leaves the tail of a longer receive buffer as it was.

Both ranks write first and look second, so at least one of them sees the mismatch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from course_lib.ranks import logbook
from course_lib.ranks.diagnosis import mismatch
from course_lib.ranks.frames import learners_frame
from course_lib.ranks.logbook import (
    BROKEN,
    CALLING,
    DONE,
    POSTED,
    WAITING,
    WITHDRAWN,
    Logbook,
    Operation,
    checksum,
)

_SECONDS_TO_REFUSE = 1.0  # on a busy machine, too

_MESSAGES = {"send": "send", "recv": "recv", "recv_anysource": "recv"}
COLLECTIVES = {  # methods of ProcessGroup, and what learners call
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
}
# Collectives whose tensors must have the same shapes on all ranks.
_SAME_SHAPE = {"all_reduce", "all_reduce_coalesced", "broadcast", "reduce"}
# Collectives in which each rank's own contribution, or what it gets, must be of the same length on all ranks:
# gloo leaves the tail of what is too long as it was.  NCCL allows all_gather of different lengths.
_SAME_LENGTH = {"gather", "scatter", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor"}


class MismatchedOperations(RuntimeError):
    """Ranks called operations that do not fit together; str() names both ranks and both lines."""


def watch(own: Path, others: dict[int, Path]) -> Logbook:
    """From now on note all operations of this process in the logbook at ``own``.

    ``others`` are the logbooks of the other ranks, by rank.
    """
    watcher = _Watcher(Logbook(own), {rank: _Reader(Logbook(path)) for rank, path in others.items()})
    group_class = dist.ProcessGroup
    for method in (*_MESSAGES, *COLLECTIVES):
        if hasattr(group_class, method):
            setattr(group_class, method, watcher.noting(getattr(group_class, method), method))
    group_class._start_coalescing = watcher.noting_start_of_batch(group_class._start_coalescing)
    group_class._end_coalescing = watcher.noting_end_of_batch(group_class._end_coalescing)
    dist.Work.wait = watcher.noting_wait(dist.Work.wait)
    dist.Work.is_completed = watcher.noting_completion(dist.Work.is_completed)
    # DDP communicates from C++, unseen by the methods above; its steps are progress all the same.
    module_class = torch.nn.parallel.DistributedDataParallel
    module_class.forward = watcher.noting_progress(module_class.forward)
    return watcher.book


class _Reader:
    """Reads another rank's logbook a bit at a time, and finds operations in it by channel and number."""

    def __init__(self, book: Logbook):
        self._book = book
        self._seen = 0
        self._indices: dict[tuple[int, int], int] = {}

    def find(self, channel: str, number: int) -> logbook.Head | None:
        """The operation of that channel and number, if the rank has posted it not too long ago."""
        self._read_new()
        index = self._indices.pop((checksum(channel), number), None)
        return None if index is None else self._book.head(index)

    def operation(self, index: int) -> Operation | None:
        return self._book.operation(index)

    def is_withdrawn(self, index: int) -> bool:
        """Whether the rank's call turns out to be refused; torch needs a moment to do so."""
        until = time.monotonic() + _SECONDS_TO_REFUSE
        while (head := self._book.head(index)) and head.stage == CALLING and time.monotonic() < until:
            time.sleep(0.001)
        return head is not None and head.stage == WITHDRAWN

    def _read_new(self) -> None:
        count = self._book.count
        oldest = max(0, count - logbook.RECORDS)
        for index in range(max(self._seen, oldest), count):
            head = self._book.head(index)
            if head is not None:
                self._indices[head.channel, head.number] = index
        self._seen = count
        if len(self._indices) > 2 * logbook.RECORDS:  # what was not for this rank
            self._indices = {key: index for key, index in self._indices.items() if index >= oldest}


class _Watcher:
    """Wraps the methods that every torch.distributed function ends in."""

    def __init__(self, book: Logbook, others: dict[int, _Reader]):
        self.book = book
        self._others = others
        self._numbers: Counter[str] = Counter()
        self._indices: weakref.WeakKeyDictionary[dist.Work, list[int]] = weakref.WeakKeyDictionary()
        self._unchecked: dict[int, Operation] = {}  # a counterpart was not there yet when it was posted
        self._batch: list[int] | None = None  # operations since _start_coalescing (NCCL)
        self._received_from_any = False

    def noting(self, method: Callable, name: str) -> Callable:
        @functools.wraps(method)
        def noted(group: dist.ProcessGroup, *args, **kwargs):
            index, operation = self._post(_describe(group, name, args, kwargs))
            try:
                if not self._fits(operation):
                    self._unchecked[index] = operation
                with self.book.waiting(index):
                    work = method(group, *args, **kwargs)
            except BaseException:
                self._withdraw(index, operation)
                raise
            if work is not None:
                self.book.set_stage(index, POSTED)
                self._indices[work] = [index]
            elif self._batch is not None:
                self._batch.append(index)
            else:
                self._finish([index])
            return work

        return noted

    def noting_start_of_batch(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def noted(*args, **kwargs):
            self._batch = []
            return method(*args, **kwargs)

        return noted

    def noting_end_of_batch(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def noted(*args, **kwargs):
            work = method(*args, **kwargs)
            batch, self._batch = self._batch or [], None
            if work is not None:
                self._indices[work] = batch
            return work

        return noted

    def noting_wait(self, wait: Callable) -> Callable:
        @functools.wraps(wait)
        def noted(work: dist.Work, *args, **kwargs):
            indices = self._indices.get(work, [])
            line = learners_frame().f_lineno if indices else 0
            for index in indices:
                self.book.set_stage(index, WAITING, line)
            try:
                with self.book.waiting(indices[0]) if indices else contextlib.nullcontext():
                    result = wait(work, *args, **kwargs)
            except BaseException:
                for index in indices:
                    self.book.set_stage(index, BROKEN, line)
                raise
            self._finish(indices)
            return result

        return noted

    def noting_progress(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def noted(*args, **kwargs):
            self.book.advance()
            return method(*args, **kwargs)

        return noted

    def noting_completion(self, is_completed: Callable) -> Callable:
        @functools.wraps(is_completed)
        def noted(work: dist.Work):
            completed = is_completed(work)
            if completed:
                self._finish(self._indices.pop(work, []))
            return completed

        return noted

    def _post(self, operation: Operation) -> tuple[int, Operation]:
        if operation.kind == "recv":
            # A receive from any rank takes a message that is then missing in its sender's count, so
            # later receives of this rank can't be matched any more.
            self._received_from_any |= not operation.peers
            if self._received_from_any:
                operation = dataclasses.replace(operation, channel=f"{operation.channel} unmatched")
        operation = dataclasses.replace(operation, number=self._numbers[operation.channel])
        self._numbers[operation.channel] += 1
        return self.book.post(operation), operation

    def _withdraw(self, index: int, operation: Operation) -> None:
        """The call was refused before anything moved: for the other ranks it was never made."""
        self._numbers[operation.channel] = operation.number
        self._unchecked.pop(index, None)
        self.book.set_stage(index, WITHDRAWN, operation.wait_line)

    def _finish(self, indices: list[int]) -> None:
        for index in indices:
            self.book.set_stage(index, DONE)
            # With gloo data has moved, so the counterpart has been posted by now.  NCCL's wait returns before
            # that: there this is only a second look.
            operation = self._unchecked.pop(index, None)
            if operation is not None:
                self._fits(operation)

    def _fits(self, operation: Operation) -> bool:
        """Compare with the counterparts that are there; True when all of them were."""
        heads = {
            peer: self._others[peer].find(operation.channel, operation.number)
            for peer in operation.peers
            if peer in self._others
        }
        for peer, head in heads.items():
            if head is None or head.signature == checksum(operation.signature):
                continue
            if self._others[peer].is_withdrawn(head.index):
                heads[peer] = None
            else:
                counterpart = self._others[peer].operation(head.index)
                if counterpart is not None:
                    raise MismatchedOperations(mismatch({dist.get_rank(): operation, peer: counterpart}))
        return None not in heads.values()


def _describe(group: dist.ProcessGroup, method: str, args: tuple, kwargs: dict) -> Operation:
    describe = _describe_message if method in _MESSAGES else _describe_collective
    frame = learners_frame()
    return Operation(
        **describe(group, method, args, kwargs),
        number=0,
        file=frame.f_code.co_filename,
        line=frame.f_lineno,
        function=frame.f_code.co_name,
        stage=CALLING,
        wait_line=frame.f_lineno,
    )


def _describe_message(group: dist.ProcessGroup, method: str, args: tuple, kwargs: dict) -> dict:
    ranks = dist.get_process_group_ranks(group)
    own, kind = dist.get_rank(), _MESSAGES[method]
    (tensor,), *rest = args
    count = tensor.numel()
    content = f"{count:,} {_dtype(tensor)} element{'' if count == 1 else 's'}"
    if method == "recv_anysource":
        return {
            "kind": kind, "channel": f"{group.group_name} any->{own}", "signature": content,
            "description": f"recv of {content} from any rank", "peers": (),
        }  # fmt: skip
    peer, tag = ranks[rest[0]], rest[1]
    if peer == own and tensor.device.type == "cpu":  # gloo fails with an error that nobody understands
        raise ValueError(f"rank {own} can't {kind} a message {'to' if kind == 'send' else 'from'} itself")
    source, target = (own, peer) if kind == "send" else (peer, own)
    return {
        "kind": kind, "channel": f"{group.group_name} {source}->{target} tag {tag}", "signature": content,
        "description": f"{kind} of {content} {'to' if kind == 'send' else 'from'} rank {peer}",
        "peers": (peer,),
    }  # fmt: skip


def _describe_collective(group: dist.ProcessGroup, method: str, args: tuple, kwargs: dict) -> dict:
    kind, own = COLLECTIVES[method], dist.get_rank()
    tensors = tensors_among(args)
    settings = _settings(kind, (*args, *kwargs.values()))
    content = f"shape {tuple(tensors[0].shape)} {_dtype(tensors[0])}" if tensors else ""
    must_agree = _must_agree(kind, tensors)
    return {
        "kind": kind, "channel": str(group.group_name), "signature": f"{kind} {must_agree} {settings}",
        "description": ", ".join(filter(None, (f"{kind} of {content}" if content else kind, settings))),
        "peers": tuple(rank for rank in dist.get_process_group_ranks(group) if rank != own),
    }  # fmt: skip


def _must_agree(kind: str, tensors: list[torch.Tensor]) -> str:
    """What of a collective's tensors must be the same on all ranks, as text."""
    if not tensors:
        return ""
    if kind in _SAME_SHAPE:
        return " ".join(f"{tuple(tensor.shape)} {_dtype(tensor)}" for tensor in tensors)
    if tensors[0].device.type != "cpu":
        return _dtype(tensors[0])
    if kind in _SAME_LENGTH:  # scatter's output comes first, the others' input last
        own = tensors[0] if kind == "scatter" else tensors[-1]
        return f"{own.numel()} {_dtype(own)}"
    if kind == "reduce_scatter":
        return f"{[tensor.numel() for tensor in tensors[1:]]} {_dtype(tensors[0])}"
    return _dtype(tensors[0])


def tensors_among(args: tuple) -> list[torch.Tensor]:
    """All tensors among the arguments, nested lists included, in order."""
    found: list[torch.Tensor] = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            found.append(arg)
        elif isinstance(arg, (list, tuple)):
            found += tensors_among(tuple(arg))
    return found


def _settings(kind: str, values: tuple) -> str:
    """The reduction and the root, where the collective has them, from its options object."""
    texts = []
    for options in values:
        if hasattr(options, "reduceOp") and "reduce" in kind:
            texts.append(_reduction(options.reduceOp))
        if hasattr(options, "rootRank") and kind in ("broadcast", "reduce", "gather", "scatter"):
            texts.append(f"root {options.rootRank}")
    return ", ".join(texts)


def _reduction(reduction: object) -> str:
    # str() of a ReduceOp is an object address; its inner enumeration has the name.
    names = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
    return next((name for name in names if reduction == getattr(dist.ReduceOp, name, None)), "")


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
