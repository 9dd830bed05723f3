"""Running the same functions under torchrun, where the ranks are there already.

Every rank runs the whole notebook or script; ``ranks.run`` then calls the function in place.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from course_lib.ranks import payload
from course_lib.ranks.devices import backend
from course_lib.ranks.errors import NeedsRanks
from course_lib.ranks.seeds import seed

if TYPE_CHECKING:
    import torch


def is_here() -> bool:
    """Whether torchrun (or Slurm with the same variables) started this process."""
    # Ranks of ranks.run have RANK and WORLD_SIZE, too, but no address to meet at.
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def rank() -> int:
    return int(os.environ["RANK"])


def world_size() -> int:
    return int(os.environ["WORLD_SIZE"])


def local_rank() -> int:
    """Among the ranks of this machine."""
    return int(os.environ.get("LOCAL_RANK", 0))


def device() -> torch.device:
    """This rank's GPU where there is one for every rank of this machine, else the CPU.

    Raises ValueError where there are GPUs, and nobody says how many ranks share them.
    """
    import torch

    if os.environ.get("COURSE_DEVICE") == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if "LOCAL_WORLD_SIZE" not in os.environ and world_size() > 1:
        raise ValueError(
            "LOCAL_WORLD_SIZE is not set: expected how many ranks share the GPUs that this one sees, and in "
            "LOCAL_RANK which of these it is, as torchrun sets them; COURSE_DEVICE=cpu takes no GPU"
        )
    has_gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return torch.device("cuda", local_rank()) if has_gpus else torch.device("cpu")


def run(function: Callable, ranks: int, args: tuple, kwargs: dict, timeout: float) -> list[Any]:
    """Call the function on the ranks that are there, with copies of its arguments as in fresh processes.

    Rank 0 prints what all ranks printed; every rank gets the results of all.  A rank that raises says on
    standard error what it has printed itself.  One that hangs can't: ``ranks.log`` is shown at once.
    Raises NeedsRanks where there are more or fewer than ``ranks`` of them.
    """
    if ranks != world_size():
        raise NeedsRanks(ranks, world_size())
    import torch.distributed as dist

    join(timeout)
    what = "the function with its arguments"
    function, args, kwargs = payload.from_bytes(payload.to_bytes((function, args, kwargs), what))
    seed(rank())
    with _not_lost(io.StringIO()) as printed:
        with contextlib.redirect_stdout(printed), _calling():
            result = function(*args, **kwargs)
        gathered: list[Any] = [None] * ranks
        dist.all_gather_object(gathered, payload.to_bytes((result, printed.getvalue()), "the result"))
    results = [payload.from_bytes(data) for data in gathered]
    if rank() == 0:
        for source, (_, text) in enumerate(results):
            _show(source, text)
    return [result for result, _ in results]


def is_calling() -> bool:
    """Whether ``run`` is calling a function right now."""
    return _is_calling


_is_calling = False


@contextlib.contextmanager
def _calling() -> Iterator[None]:
    global _is_calling
    _is_calling = True
    try:
        yield
    finally:
        _is_calling = False


def join(timeout: float) -> None:
    """Make the default group of torchrun's ranks, unless it is there; what waits longer in it fails."""
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    if device().type == "cuda":
        torch.cuda.set_device(device())
    dist.init_process_group(backend(device().type), timeout=datetime.timedelta(seconds=timeout))


@contextlib.contextmanager
def _not_lost(printed: io.StringIO) -> Iterator[io.StringIO]:
    """Where the block raises, rank 0 never gets what this rank printed, so this one says it."""
    try:
        yield printed
    except BaseException:
        _show(rank(), printed.getvalue(), sys.stderr)
        raise


def _show(source: int, printed: str, stream: TextIO | None = None) -> None:
    for line in printed.splitlines():
        say(f"[rank {source}] {line}", stream)


def say(text: str, stream: TextIO | None = None) -> None:
    """A whole line in one piece, on standard output by default.

    torchrun starts Python unbuffered, and then ``print`` writes a text and its end one after the other:
    another rank's line may come between them.
    """
    stream = stream or sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def say_error(text: str) -> None:
    """``say`` on standard error, on any rank: what went wrong must be seen, whoever it happened to."""
    say(text, sys.stderr)
