"""``ranks.run``: start ranks, watch them, explain what went wrong, end them.

The way in: it chooses who starts the processes (``fork_server``, ``fresh_processes``, ``torchrun``) and hands
the run to ``watching``.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from course_lib.links import Links
from course_lib.machine import usable_cores
from course_lib.ranks import current, devices, torchrun
from course_lib.ranks.errors import NeedsLinks, RanksError
from course_lib.ranks.fork_server import ForkServer, can_fork
from course_lib.ranks.fresh_processes import FreshProcesses
from course_lib.ranks.run_files import RunFiles
from course_lib.ranks.watching import Limits, Run, Starter, uninterrupted


def run(
    function: Callable[..., Any],
    ranks: int,
    *args: Any,
    timeout: float = 60,
    device: str = "auto",
    links: Links | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Call ``function(*args, **kwargs)`` on so many ranks at once; return their results in rank order.

    Each rank is a fresh process with its own copy of the function and the arguments.  torch.distributed's
    default group is ready, ``ranks.device()`` is the device to compute on, and torch, numpy and random are
    seeded with the rank.  What ranks print is shown, rank by rank, when all are done.  Under torchrun the
    ranks that are there are used.

    timeout: seconds in which no rank made progress: no communication, no ``ranks.log``, no step of
        ``ranks.progress``.  Where others keep the cores busy, only those count for which ranks had them.
    device: ``"cpu"``, ``"cuda"`` (a GPU for each rank, leased for the call), or ``"auto"``: GPUs where there
        are enough, else the CPU.
    links: ``course_lib.links.Links`` between the ranks, slow ones; without, they have what the machine has.
        With them, ``"auto"`` is the CPU.

    Raises RankFailed if a rank raises, leaves or dies; RanksHung at the time limit; ValueError for arguments
    that make no sense or can't be sent.  Tensors come back on the CPU.
    """
    __tracebackhide__ = True
    _check(function, ranks, timeout, links)
    if torchrun.is_here():
        if links is not None:
            raise NeedsLinks()
        return torchrun.run(function, ranks, args, kwargs, timeout)
    return call(function, ranks, args, kwargs, device, Limits(timeout), links)


def call(
    function: Callable[..., Any],
    ranks: int,
    args: tuple,
    kwargs: dict,
    device: str,
    limits: Limits,
    links: Links | None = None,
    plain: bool = False,
) -> list[Any]:
    """``run`` on this machine, with more limits: RanksHung, too, if it takes longer in all.

    ``plain``: results are text, numbers, lists and dicts.  Nothing else that comes from a rank is unpickled,
    so that it can't run code here; exceptions come as their text.
    """
    __tracebackhide__ = True
    if links is not None:
        device = _device_with(links, device)
    with devices.leased(ranks, device, limits.without_progress) as found, _run_folder() as (starter, files):
        one_call = Run(starter, files, ranks, limits, plain)
        one_call.prepare(found, links, function, args, kwargs)
        return one_call.results()


def import_beforehand(modules: Iterable[str]) -> None:
    """Have modules imported once, by the process that starts ranks, and not by each rank of each later call.

    For modules that start no threads and leave GPUs alone.  Where ranks are not forked, each imports them.
    """
    _get_starter().import_beforehand(modules)


_starter: Starter | None = None
_starter_lock = threading.Lock()


def _device_with(links: Links, device: str) -> str:
    """Slow links show what a network costs, which takes no GPU; NCCL over real ones has not been run."""
    if device == "cuda" and not links.is_real:
        raise ValueError(f"device={device!r}: links paced in software are for ranks on the CPU")
    return "cpu" if device == "auto" else device


def _check(function: Any, ranks: Any, timeout: Any, links: Any) -> None:
    if not callable(function):
        raise ValueError(
            f"ranks.run needs a function to call, and got {function!r}: hand over the function itself, "
            "not what it returns"
        )
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks={ranks!r}: expected a whole number of at least 1")
    most = max(16, 4 * usable_cores())
    if ranks > most:
        raise ValueError(f"ranks={ranks}: each rank is a process of its own; at most {most} on this machine")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: expected a number of seconds above 0")
    if links is not None and not isinstance(links, Links):
        raise ValueError(f'links={links!r}: expected course_lib.links.Links, or None')
    if current.is_rank():
        raise RanksError("ranks.run was called inside a rank, and a rank can't start ranks of its own.")


@contextlib.contextmanager
def _run_folder() -> Iterator[tuple[Starter, RunFiles]]:
    starter = _get_starter()
    with uninterrupted():
        folder = Path(tempfile.mkdtemp(dir=starter.folder))
    try:
        yield starter, RunFiles(folder)
    finally:
        with uninterrupted():
            shutil.rmtree(folder, ignore_errors=True)


def starter_process() -> int | None:
    """The pid of the process that starts ranks, if it is there and can be used."""
    return _starter.pid if isinstance(_starter, ForkServer) and _starter.is_usable else None


def _get_starter() -> Starter:
    """The process that starts ranks; it lives as long as the notebook's kernel."""
    global _starter
    with _starter_lock:
        if _starter is None or not _starter.is_usable:
            if _starter is not None:
                _starter.close()
            if can_fork():
                _starter = ForkServer()
            else:
                print("On this system every rank is a new Python process, so a call takes some seconds.")
                _starter = FreshProcesses()
        return _starter
