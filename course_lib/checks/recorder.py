"""Records a rank's messages: what a function posted, in which order, and what it waited for.

A result can be right by luck: a message that nobody waited for may have arrived in time, and an order that
gloo forgives may stop NCCL.  The recorded messages show it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType, FrameType

import torch
import torch.distributed as dist

from course_lib.checks.messages import Message
from course_lib.checks.under_way import UnderWay


class Recorder:
    """Wraps torch.distributed in this process for good: a rank lives for one check only."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._works: list[tuple[dist.Work, tuple[int, ...]]] = []  # gloo gives up what is let go
        self._batches: list[FrameType] = []
        self._under_way = UnderWay()
        group = dist.ProcessGroup
        group.send = self._recording(group.send, "send")
        group.recv = self._recording(group.recv, "recv")
        group.recv_anysource = self._recording_from_any(group.recv_anysource)
        group._end_coalescing = self._recording_batch(group._end_coalescing)
        dist.Work.is_completed = self._recording_question(dist.Work.is_completed)
        for name in ("wait", "get_future"):
            setattr(dist.Work, name, self._recording_wait(getattr(dist.Work, name)))

    def record(
        self, call: Callable[[], object]
    ) -> tuple[object, tuple[Message, ...], tuple[str, ...], tuple[int, ...]]:
        """What ``call()`` returns, the messages that it posted, and the collectives, with their bytes."""
        self._messages, self._batches, self._under_way = [], [], UnderWay()
        self._works = [(work, ()) for work, _ in self._works]
        with self._under_way:
            result = call()
        faults = self._under_way.faults
        messages = [replace(message, fault=faults.get(number, ""))
                    for number, message in enumerate(self._messages)]  # fmt: skip
        under_way = self._under_way
        return result, tuple(messages), tuple(under_way.collectives), tuple(under_way.collective_bytes)

    def _recording(self, method, kind: str):
        @functools.wraps(method)
        def recorded(group, tensors, peer, tag=0, *rest, **named):
            number = self._post(kind, tensors, dist.get_global_rank(group, peer), tag)
            return self._keep(method(group, tensors, peer, tag, *rest, **named), (number,))

        return recorded

    def _recording_from_any(self, method):
        @functools.wraps(method)
        def recorded(group, tensors, tag=0, *rest, **named):
            number = self._post("recv", tensors, None, tag)
            return self._keep(method(group, tensors, tag, *rest, **named), (number,))

        return recorded

    def _post(self, kind: str, tensors: Sequence[torch.Tensor], peer: int | None, tag: int) -> int:
        number, size = len(self._messages), sum(tensor.nbytes for tensor in tensors)
        self._under_way.post(number, kind, tensors)
        self._messages.append(Message(kind, peer, tag, self._batch(), bytes=size))
        return number

    def _keep(self, work: dist.Work | None, numbers: tuple[int, ...]) -> dist.Work | None:
        if work is not None:
            self._works.append((work, numbers))
        return work

    def _recording_batch(self, method):
        """NCCL gives one handle for a whole batch, gloo one for each message."""

        @functools.wraps(method)
        def recorded(*args, **named):
            work = method(*args, **named)
            last = self._messages[-1].batch if self._messages else None
            batch = (i for i, message in enumerate(self._messages) if message.batch == last is not None)
            return self._keep(work, tuple(batch))

        return recorded

    def _recording_wait(self, method):
        @functools.wraps(method)
        def recorded(work, *args, **named):
            self._note_wait(work, finished=True)
            return method(work, *args, **named)

        return recorded

    def _recording_question(self, method):
        @functools.wraps(method)
        def recorded(work, *args, **named):
            answer = method(work, *args, **named)
            self._note_wait(work, finished=answer)
            return answer

        return recorded

    def _note_wait(self, work: dist.Work, finished: bool) -> None:
        numbers = [number for known, numbers in self._works if known is work for number in numbers]
        for number in numbers:
            if finished:
                self._under_way.finish(number)
            if self._messages[number].waited is None:
                self._messages[number] = replace(self._messages[number], waited=len(self._messages))

    def _batch(self) -> int | None:
        """The number of the call of batch_isend_irecv that posts now; under any name, it runs this code."""
        frame = _calling(dist.batch_isend_irecv.__code__)
        if frame is None:
            return None
        if not self._batches or self._batches[-1] is not frame:
            self._batches.append(frame)
        return len(self._batches) - 1


def _calling(code: CodeType) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame
