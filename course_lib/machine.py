"""What this machine offers: cores and memory that this process may really use.

Containers and shared hubs give a process less than the machine has, so counting the machine's cores
would start too many threads.  Standard library only; nothing here knows of ranks or torch.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores that this process may keep busy: at least 1.

    The smaller of the affinity mask (``taskset``, Slurm) and the cgroup's CPU quota (containers, hubs),
    the quota rounded up to whole cores.
    """
    return max(1, math.ceil(min(_cores_in_affinity_mask(), _cgroup_cpu_quota(cgroup))))


def memory_limit(cgroup: Path = CGROUP) -> int | None:
    """Bytes of memory that this process and its children may use together; None where no one tells.

    The smaller of physical memory and the cgroup's limit.
    """
    limits = [limit for limit in (_physical_memory(), _cgroup_memory_limit(cgroup)) if limit is not None]
    return min(limits, default=None)


def processor_share(seconds: float = 0.05) -> float:
    """Share of a core that this thread gets right now, above 0 and up to 1: it computes for so many seconds.

    On a calm machine it is about 1.  Where others compute as well, it takes longer than ``seconds``.
    """
    began, until = time.perf_counter(), time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return min(1.0, seconds / (time.perf_counter() - began))


def _cores_in_affinity_mask() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_cpu_quota(cgroup: Path) -> float:
    """Cores' worth of CPU time that the cgroup allows; infinity without a limit."""
    return min((_quota_in(folder) for folder in _cgroup_folders(cgroup)), default=math.inf)


def _quota_in(folder: Path) -> float:
    version_2 = _read(folder / "cpu.max").split()
    if len(version_2) == 2 and version_2[0] != "max":
        return int(version_2[0]) / int(version_2[1])
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return math.inf


def _cgroup_memory_limit(cgroup: Path) -> int | None:
    limits = [
        int(text)
        for folder in _cgroup_folders(cgroup)
        for text in (_read(folder / "memory.max"), _read(folder / "memory.limit_in_bytes"))
        if text.isdigit()
    ]
    return min(limits, default=None)


def _cgroup_folders(root: Path) -> list[Path]:
    """The folders that hold this process's limits, for both cgroup versions, parents included.

    Inside a container the cgroup's own folder is usually mounted as the root, so the root counts too.
    """
    folders = [root, root / "cpu", root / "memory"]
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        top = root / controllers if controllers else root
        own = top / path.lstrip("/")
        folders += [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return folders


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
