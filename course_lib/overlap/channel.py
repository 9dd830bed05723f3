"""Where reductions run: beside the backward pass, one after another, in the order of their starts.

A channel's ``start(prepare, all_reduce)`` returns at once, and then sums over all ranks what ``prepare()``
returns.  ``wait()`` of what it returns ends when that is done, and raises what was raised.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Protocol

import torch
import torch.distributed as dist

from course_lib.ranks.frames import learners_frame, on_behalf_of

AllReduce = Callable[[torch.Tensor], object]
Prepare = Callable[[], torch.Tensor]


class Started(Protocol):
    def wait(self) -> object: ...


class Channel(Protocol):
    def start(self, prepare: Prepare, all_reduce: AllReduce) -> Started: ...

    def follow(self) -> None:
        """What is started later comes after all that the current stream has been given so far."""


class _OnHost:
    def follow(self) -> None:
        pass  # what has been called is done


class InTurn(_OnHost):
    """No channel: the sum is there before ``start`` returns."""

    def start(self, prepare: Prepare, all_reduce: AllReduce) -> Started:
        all_reduce(prepare())
        return _Done()


class _Done:
    def wait(self) -> None:
        pass


class Asynchronous(_OnHost):
    """Torch's own all-reduce, which has threads of its own."""

    def start(self, prepare: Prepare, all_reduce: AllReduce) -> Started:
        return dist.all_reduce(prepare(), async_op=True)


class Thread(_OnHost):
    """A thread that does nothing else.  It ends with this object, and never keeps a process alive."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue = SimpleQueue()
        threading.Thread(target=_do_tasks, args=[self._tasks], name="communication", daemon=True).start()
        weakref.finalize(self, self._tasks.put, None)

    def start(self, prepare: Prepare, all_reduce: AllReduce) -> Started:
        done = _OnThread()
        self._tasks.put((prepare, all_reduce, done, learners_frame()))
        return done


def _do_tasks(tasks: SimpleQueue) -> None:
    while (task := tasks.get()) is not None:
        prepare, all_reduce, done, frame = task
        try:
            with on_behalf_of(frame):
                done.set_result(all_reduce(prepare()))
        except BaseException as error:
            done.set_exception(error)
        del task, prepare, all_reduce, done, frame  # or they would live until the next task comes


class _OnThread(Future):
    def wait(self) -> None:
        self.result()


class Stream:
    """A CUDA stream.  The host only hands the work over, and never waits.  (Not yet run on a GPU.)"""

    def __init__(self, device: torch.device):
        self._stream = torch.cuda.Stream(device)

    def start(self, prepare: Prepare, all_reduce: AllReduce) -> Started:
        with torch.cuda.stream(self._stream):
            all_reduce(prepare())
        return _OnStream(self._stream.record_event())

    def follow(self) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))


class _OnStream:
    def __init__(self, done: torch.cuda.Event):
        self._done = done

    def wait(self) -> None:
        torch.cuda.current_stream().wait_event(self._done)


def beside(device: torch.device, all_reduce: AllReduce) -> Channel:
    """The channel for this all-reduce beside what the device computes."""
    if device.type == "cuda":
        return Stream(device)
    return Asynchronous() if all_reduce is dist.all_reduce else Thread()
