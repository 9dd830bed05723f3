"""Where reductions run: beside the backward pass, one after another, in the order of their starts.

A channel's ``start(row, all_reduce)`` returns at once, and then sums the row over all ranks.  ``wait()`` of
what it returns ends when that is done, and raises what was raised.

All modules of a process share one thread or stream, and on the CPU one process group beside the default one:
else messages of two modules, or those of the step itself, could meet each other's.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol

import torch
import torch.distributed as dist

from course_lib.all_reduce import ring
from course_lib.ranks.frames import learners_frame, on_behalf_of

AllReduce = Callable[..., Any]  # called with the tensor; some take more, such as torch's async_op


class Started(Protocol):
    def wait(self) -> object: ...


class Channel(Protocol):
    def start(self, row: torch.Tensor, all_reduce: AllReduce) -> Started: ...

    def follow(self) -> None:
        """What is started later comes after all that the current stream has been given so far."""


class _OnHost:
    def follow(self) -> None:
        pass  # what has been called is done


class InTurn(_OnHost):
    """No channel: the sum is there before ``start`` returns."""

    def start(self, row: torch.Tensor, all_reduce: AllReduce) -> Started:
        sum_in_place(all_reduce, row)
        return _Done()


class _Done:
    def wait(self) -> None:
        pass


class Asynchronous(_OnHost):
    """Torch's own all-reduce, which has threads of its own."""

    def start(self, row: torch.Tensor, all_reduce: AllReduce) -> Started:
        return all_reduce(row, async_op=True)


class Thread(_OnHost):
    """A thread that does nothing else, and never keeps a process alive."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue = SimpleQueue()
        threading.Thread(target=_do_tasks, args=[self._tasks], name="communication", daemon=True).start()

    def start(self, row: torch.Tensor, all_reduce: AllReduce) -> Started:
        done = _OnThread()
        self._tasks.put((row, all_reduce, done, learners_frame()))
        return done


def _do_tasks(tasks: SimpleQueue) -> None:
    while True:
        row, all_reduce, done, frame = tasks.get()
        try:
            with on_behalf_of(frame):
                sum_in_place(all_reduce, row)
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)
        del row, all_reduce, done, frame  # or they would live until the next task comes


class _OnThread(Future):
    def wait(self) -> None:
        self.result()


class Stream:
    """A CUDA stream.  The host only hands the work over, and never waits.  (Not yet run on a GPU.)"""

    def __init__(self, device: torch.device):
        self._stream = torch.cuda.Stream(device)

    def start(self, row: torch.Tensor, all_reduce: AllReduce) -> Started:
        row.record_stream(self._stream)  # its memory goes to nobody else before this stream is done
        with torch.cuda.stream(self._stream):
            sum_in_place(all_reduce, row)
        return _OnStream(self._stream.record_event(), row.device)

    def follow(self) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))


class _OnStream:
    def __init__(self, done: torch.cuda.Event, device: torch.device):
        self._done, self._device = done, device

    def wait(self) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._done)


def sum_in_place(all_reduce: AllReduce, row: torch.Tensor) -> None:
    """Call it, and wait for what it has only started.  Raises ValueError if it has not worked in place."""
    result = all_reduce(row)
    if isinstance(result, torch.Tensor) and result.data_ptr() != row.data_ptr():
        raise ValueError("all_reduce returned another tensor: expected the sum in the one that it was given")
    if hasattr(result, "wait"):
        result.wait()


def beside(device: torch.device, all_reduce: AllReduce) -> Channel:
    """The channel for this all-reduce beside what the device computes."""
    if device.type == "cuda":
        return _stream(device)
    is_torchs = getattr(all_reduce, "func", all_reduce) is dist.all_reduce
    return Asynchronous() if is_torchs else _thread()


_thread = functools.cache(Thread)
_stream = functools.cache(Stream)


def apart(all_reduce: AllReduce | None, device: torch.device) -> AllReduce:
    """The all-reduce, by default the course's ring, in a process group that nothing else uses.

    One that takes no ``group`` stays in the default group.  Called by all ranks at the same time.  On GPUs
    the default group serves: NCCL has one order for all that a rank starts, and two of its groups under way
    at once may wait for each other for ever.
    """
    all_reduce = all_reduce or ring
    if device.type == "cuda" or not _takes_group(all_reduce):
        return all_reduce
    return functools.partial(all_reduce, group=_group_beside(dist.group.WORLD))


def _takes_group(all_reduce: AllReduce) -> bool:
    try:
        return "group" in inspect.signature(all_reduce).parameters
    except ValueError:  # some of C++ have no signature
        return False


@functools.lru_cache(maxsize=1)
def _group_beside(world: dist.ProcessGroup) -> dist.ProcessGroup:
    # Left to itself, it would wait half an hour for a rank that does not answer, whatever the limit is.
    limit = world._get_backend(torch.device("cpu")).options._timeout
    return dist.new_group(timeout=limit)
