"""Time as the ranks of a run have it: it goes on more slowly for them while other programs use the cores.

A limit in plain seconds would end a right function on a busy machine, as in a class that shares one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from course_lib.machine import usable_cores
from course_lib.ranks import logbook

_SECONDS_BETWEEN_LOOKS = 0.25
_SLOWEST = 20  # times slower than the clock on the wall, so that a limit always comes


class CoreTime(NamedTuple):
    """Seconds for which a process ran, and for which it could have run and waited for a core."""

    ran: float
    waited: float


class OwnTime:
    """Seconds since it was made, of these ranks: those of the clock on the wall, or down to a twentieth."""

    def __init__(self, books: Sequence[logbook.Logbook]):
        self._books = books
        self._cores = usable_cores()
        self._seconds = 0.0
        self._last_look = time.monotonic()
        self._core_times = self._look()

    def seconds(self) -> float:
        """What others have held up is known up to the last look; what has passed since then counts."""
        elapsed = time.monotonic() - self._last_look
        if elapsed >= _SECONDS_BETWEEN_LOOKS:
            before, self._core_times = self._core_times, self._look()
            spent = [
                CoreTime(now.ran - then.ran, now.waited - then.waited)
                for pid, now in self._core_times.items() if (then := before.get(pid))
            ]  # fmt: skip
            self._seconds += own_seconds(elapsed, spent, self._cores)
            self._last_look += elapsed
            elapsed = 0
        return self._seconds + elapsed

    def _look(self) -> dict[int, CoreTime]:
        return {book.pid: found for book in self._books if (found := core_time(book.pid))}


def own_seconds(elapsed: float, spent: Sequence[CoreTime], cores: int) -> float:
    """How much of ``elapsed`` counts: that in which nobody kept ranks that wanted to run from their cores.

    Ranks that slept, or waited for one another, needed no core, so if none wanted one all of it counts.
    So it does where ranks take the cores from one another only.
    """
    busy = [each for each in spent if each.ran + each.waited > elapsed / 2]
    if not busy:
        return elapsed
    # A rank that looks every millisecond whether it can go on sleeps between looks, which is nobody's fault.
    had = sum(max(each.ran, elapsed - each.waited) for each in busy) / min(len(busy), cores)
    return min(elapsed, max(had, elapsed / _SLOWEST))


def core_time(pid: int) -> CoreTime | None:
    """Of a process's main thread; None where the system doesn't tell, so that all seconds count.

    Linux tells it in nanoseconds (the kernel's Documentation/scheduler/sched-stats.rst).
    """
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return CoreTime(int(ran) / 1e9, int(waited) / 1e9)
