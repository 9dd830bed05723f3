"""Records a rank's messages: what a function posted, in which order, and what it waited for.

A result can be right by luck: a message that nobody waited for may have arrived in time, and an order that
gloo forgives may stop NCCL.  The recorded messages show it.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from types import CodeType, FrameType

import torch.distributed as dist

from course_lib.checks.messages import Message


class Recorder:
    """Wraps torch.distributed in this process for good: a rank lives for one check only."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._works: list[tuple[dist.Work, tuple[int, ...]]] = []  # gloo gives up what is let go
        self._batches: list[FrameType] = []
        for name in ("send", "recv"):
            setattr(dist.ProcessGroup, name, self._recording(getattr(dist.ProcessGroup, name), name))
        end = dist.ProcessGroup._end_coalescing
        dist.ProcessGroup._end_coalescing = self._recording_batch(end)
        for name in ("wait", "is_completed", "get_future"):
            setattr(dist.Work, name, self._recording_wait(getattr(dist.Work, name)))

    def messages_of(self, call) -> tuple[object, tuple[Message, ...]]:
        """What ``call()`` returns, and the messages that it posted."""
        self._messages, self._batches = [], []
        self._works = [(work, ()) for work, _ in self._works]
        result = call()
        return result, tuple(self._messages)

    def _recording(self, method, kind: str):
        @functools.wraps(method)
        def recorded(group, tensors, peer, tag=0, *rest, **named):
            index = len(self._messages)
            self._messages.append(Message(kind, peer, tag, self._batch()))
            work = method(group, tensors, peer, tag, *rest, **named)
            if work is not None:
                self._works.append((work, (index,)))
            return work

        return recorded

    def _recording_batch(self, method):
        """NCCL gives one handle for a whole batch, gloo one for each message."""

        @functools.wraps(method)
        def recorded(*args, **named):
            work = method(*args, **named)
            last = self._messages[-1].batch if self._messages else None
            batch = tuple(i for i, message in enumerate(self._messages) if message.batch == last is not None)
            if work is not None:
                self._works.append((work, batch))
            return work

        return recorded

    def _recording_wait(self, method):
        @functools.wraps(method)
        def recorded(work, *args, **named):
            for known, indices in self._works:
                if known is work:
                    self._note_wait(indices)
            return method(work, *args, **named)

        return recorded

    def _note_wait(self, indices: tuple[int, ...]) -> None:
        for index in indices:
            if self._messages[index].waited is None:
                self._messages[index] = replace(self._messages[index], waited=len(self._messages))

    def _batch(self) -> int | None:
        """The number of the call of batch_isend_irecv that posts now; under any name, it runs this code."""
        frame = _calling(dist.batch_isend_irecv.__code__)
        if frame is None:
            return None
        if not self._batches or self._batches[-1] is not frame:
            self._batches.append(frame)
        return len(self._batches) - 1


def _calling(code: CodeType) -> FrameType | None:
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame
