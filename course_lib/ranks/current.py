"""What a function can ask and say while it runs as a rank: its device, a live line, a progress bar.

Runs in the rank, and stands on what ``rank_process`` has handed to ``enter``, or on torchrun's environment.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import tqdm

from course_lib.ranks import torchrun

if TYPE_CHECKING:
    import torch

    from course_lib.ranks.logbook import Logbook

T = TypeVar("T")
_SECONDS_BETWEEN_TICKS = 0.1


@dataclass(frozen=True)
class _Current:
    rank: int
    device: str
    live: Path
    book: Logbook


_current: _Current | None = None
_loops = itertools.count()  # numbers of loops with a progress bar


def enter(rank: int, device: str, live: Path, book: Logbook) -> None:
    """Make this process a rank."""
    global _current
    _current = _Current(rank, device, live, book)


def is_rank() -> bool:
    """Whether a function that ``ranks.run`` calls is running in this process."""
    return _current is not None or torchrun.is_calling()


def device() -> torch.device:
    """The device that this rank computes on: ``cpu``, or the GPU that it has for itself.

    Raises RuntimeError outside a rank.
    """
    import torch

    if _current is not None:
        return torch.device("cuda", _current.rank) if _current.device == "cuda" else torch.device("cpu")
    if torchrun.is_here():
        return torchrun.device()
    raise RuntimeError("ranks.device() is for functions that ranks.run calls; this process is not a rank")


def log(text: object) -> None:
    """Show a line, labeled with the rank, at once; what is printed is shown when the run has ended.

    Outside of a rank it prints the line as it is.
    """
    if _current is None:
        with tqdm.tqdm.external_write_mode():  # a line of its own, not one behind a progress bar
            torchrun.say(f"[rank {torchrun.rank()}] {text}" if torchrun.is_here() else str(text))
        return
    _tell(_current, {"line": str(text)})
    _current.book.advance()


def progress(iterable: Iterable[T], total: int | None = None, description: str = "") -> Iterator[T]:
    """Go through ``iterable`` with one progress bar for this loop in the notebook, drawn for rank 0.

    Every step counts as progress, so a long computation without communication is not taken for a hang.
    Outside of a rank the bar is drawn by itself, in a terminal only.
    """
    if _current is None:
        is_first = not torchrun.is_here() or torchrun.rank() == 0
        # None: not where nobody looks on, as in a file
        yield from tqdm.tqdm(iterable, total=total, desc=description, disable=None if is_first else True)
        return
    total = len(iterable) if total is None and isinstance(iterable, Sized) else total
    about = {"loop": next(_loops), "description": description}
    done, told = 0, 0.0
    for done, item in enumerate(iterable, start=1):
        yield item
        _current.book.advance()
        if _current.rank == 0 and time.monotonic() - told > _SECONDS_BETWEEN_TICKS:
            told = time.monotonic()
            _tell(_current, {**about, "done": done, "total": total, "is_over": False})
    if _current.rank == 0:
        _tell(_current, {**about, "done": done, "total": total or done, "is_over": True})


def _tell(current: _Current, event: dict) -> None:
    with current.live.open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")
