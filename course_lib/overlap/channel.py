"""Where reductions run: beside the backward pass, one after another, in the order of their starts.

A channel's ``start(work)`` returns at once; ``result()`` of what it returns waits until the work is done,
and raises what it raised.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import torch

from course_lib.ranks.frames import learners_frame, on_behalf_of

Work = Callable[[], object]


class InTurn:
    """No channel: the work is done before ``start`` returns."""

    def start(self, work: Work) -> Future:
        done: Future = Future()
        done.set_result(work())
        return done

    def follow(self) -> None:
        pass


class Thread:
    """A thread that does nothing else.  It ends with this object, and never keeps a process alive."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue = SimpleQueue()
        threading.Thread(target=_do_tasks, args=[self._tasks], name="communication", daemon=True).start()
        weakref.finalize(self, self._tasks.put, None)

    def start(self, work: Work) -> Future:
        done: Future = Future()
        self._tasks.put((work, done, learners_frame()))
        return done

    def follow(self) -> None:
        pass


def _do_tasks(tasks: SimpleQueue) -> None:
    while (task := tasks.get()) is not None:
        work, done, frame = task
        try:
            with on_behalf_of(frame):
                done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        del task, work, done, frame  # or they would live until the next task comes


class Stream:
    """A CUDA stream.  The host only hands the work over, and never waits.  (Not yet run on a GPU.)"""

    def __init__(self, device: torch.device):
        self._stream = torch.cuda.Stream(device)

    def start(self, work: Work) -> _OnStream:
        with torch.cuda.stream(self._stream):
            work()
            return _OnStream(self._stream.record_event())

    def follow(self) -> None:
        """Let later work wait for what has been given to the current stream so far."""
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))


class _OnStream:
    def __init__(self, done: torch.cuda.Event):
        self._done = done

    def result(self) -> None:
        torch.cuda.current_stream().wait_event(self._done)


Channel = InTurn | Thread | Stream


def beside(device: torch.device) -> Channel:
    """A channel that runs beside what this device computes."""
    return Stream(device) if device.type == "cuda" else Thread()
