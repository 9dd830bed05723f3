"""When something happened: on the host, or on a GPU, which is busy with what the host told it before.

A clock's ``mark()`` is cheap and tells no time yet; ``seconds(mark)`` does, once, at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_EXCHANGES = 20


class HostClock:
    """time.perf_counter: one clock for all processes of a machine."""

    blocks = True  # the host computes nothing while it does something else

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, mark: float) -> float:
        return mark


class StreamClock:
    """Marks are events on the current CUDA stream.  Not yet run on a GPU.

    The device's time is tied to the host's at one event, for which the host waits: what it takes to see that
    the event is over, some microseconds, is the error of all marks alike.
    ``event``, ``synchronize``: what torch.cuda has, unless a test hands over its own.
    """

    blocks = False

    def __init__(
        self, event: Callable[[], Any] | None = None, synchronize: Callable[[], None] | None = None
    ) -> None:
        import torch

        self._event = event or (lambda: torch.cuda.Event(enable_timing=True))
        (synchronize or torch.cuda.synchronize)()
        self._reference = self.mark()
        self._reference.synchronize()
        self._reference_seconds = time.perf_counter()

    def mark(self) -> Any:
        event = self._event()
        event.record()
        return event

    def seconds(self, mark: Any) -> float:
        mark.synchronize()
        return self._reference_seconds + self._reference.elapsed_time(mark) / 1000


Clock = HostClock | StreamClock


def clock_for(device_type: str) -> Clock:
    return StreamClock() if device_type == "cuda" else HostClock()


def clock_offset(now: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    """Seconds to add to this rank's clock for rank 0's time, and how far off that may be.

    Zero, nearly, between ranks of one machine; for those of several machines hand it to
    ``Recorder(clock_offset=...)``.  All ranks must call it.  Each asks rank 0 for the time, several times;
    the quickest answer is taken, and rank 0's time is put in the middle between question and answer.
    """
    import torch
    import torch.distributed as dist

    from course_lib import ranks

    rank = dist.get_rank()
    told, best = torch.zeros(1, dtype=torch.float64, device=ranks.device()), (0.0, float("inf"))
    for other in range(1, dist.get_world_size()):
        for _ in range(_EXCHANGES if rank in (0, other) else 0):
            if rank == 0:
                dist.recv(told, src=other)
                dist.send(torch.full_like(told, now()), dst=other)
            else:
                asked = now()
                dist.send(told, dst=0)
                dist.recv(told, src=0)
                theirs, answered = told.item(), now()
                offset = theirs - (asked + answered) / 2, (answered - asked) / 2
                best = min(best, offset, key=lambda each: each[1])
    return best if rank else (0.0, 0.0)
