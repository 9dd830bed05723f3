"""Processes of this machine, as Linux's /proc shows them: who started whom, and how much memory each uses.

Of a process that ends meanwhile nothing is known: that is no error.  ``end_with_parent`` is for those that
must not outlive who started them.  Stands on nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def fields(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; nothing of a process that has gone."""
    try:
        # "pid (name) state parent …"; the name may hold blanks and brackets.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def children() -> dict[int, list[int]]:
    """Of each process that has children, these, with those that have ended and wait to be reaped."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (known := fields(int(entry.name))):
            found.setdefault(int(known[1]), []).append(int(entry.name))
    return found


def descendants(pid: int, of: dict[int, list[int]] | None = None) -> list[int]:
    """Children, their children, and so on; ``of``: what ``children`` gave, where several are asked about."""
    of = children() if of is None else of
    found, waiting = [], [pid]
    while waiting:
        started = of.get(waiting.pop(), [])
        found += started
        waiting += started
    return found


def proportional_bytes(pid: int) -> int:
    """PSS: what several processes share counts in parts.  0 when it has gone, or may not be looked at."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def end_with_parent(parent: int | None = None) -> None:
    """Have the calling process killed when the thread that started it ends, however that happens.

    ``parent``: the pid of who started it; where that one is gone already, it is killed at once.

    On Linux; elsewhere nothing happens.  It holds for this process only, not for those that it starts.
    """
    if sys.platform == "linux":
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def prctl(option: int, value: int) -> None:
    """Linux's call of this name, with what it returns left unread: for options that can't fail."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
