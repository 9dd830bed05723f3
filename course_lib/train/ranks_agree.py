"""What all ranks have to know together, before they start and when one of them has had trouble.

Stands on ``gather``: everything is told to everybody, and then each rank decides the same.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from course_lib import ranks
from course_lib.data_parallel.modules import gather
from course_lib.machine import usable_cores
from course_lib.ranks.diagnosis import names
from course_lib.train import precision
from course_lib.train.checkpoint import Unusable
from course_lib.train.errors import TrainingError
from course_lib.train.settings import Settings

T = TypeVar("T")
_OF_A_RANK = ("mine", "log", "quiet")  # rank 0's are taken


@dataclass(frozen=True)
class Machine:
    """Where a rank runs.  ``ranks_here``: on the same machine."""

    host: str
    device: str
    has_bf16: bool
    cores: int
    threads: int
    ranks_here: int

    @property
    def shares_cores(self) -> bool:
        return self.device == "CPU" and self.ranks_here > self.cores


def machines() -> list[Machine]:
    """Of all ranks, in rank order."""
    device = ranks.device()
    name = "CPU" if device.type == "cpu" else torch.cuda.get_device_name(device)
    own = socket.gethostname(), name, precision.has_bf16(device), usable_cores(), torch.get_num_threads()
    of_ranks = gather(own)
    ranks_on = Counter(host for host, *_ in of_ranks)
    return [Machine(*each, ranks_on[each[0]]) for each in of_ranks]


def require_same_settings(settings: Settings, **more: object) -> None:
    """Raises TrainingError on all ranks if their settings differ, or what is given besides."""
    own = {name: value for name, value in asdict(settings).items() if name not in _OF_A_RANK} | more
    of_ranks = gather(own)
    for name, first in of_ranks[0].items():
        others = [rank for rank, each in enumerate(of_ranks) if each[name] != first]
        if others:
            raise TrainingError(
                f"The ranks differ: {name}={first!r} on rank 0, and {of_ranks[others[0]][name]!r} on "
                f"{names(others)}. All machines need the same command and the same version of the course."
            )


def from_rank_0(make: Callable[[], T]) -> T:
    """What rank 0 makes; where it can't, TrainingError on all ranks."""
    return from_rank(0, make)


def from_rank(source: int, make: Callable[[], T]) -> T:
    """What one rank makes; where it can't, TrainingError on all ranks."""
    box: list[Any] = [None]
    if dist.get_rank() == source:
        try:
            box = [(make(), "")]
        except OSError as problem:
            box = [(None, f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem))]
        except (ValueError, Unusable) as problem:
            box = [(None, str(problem))]
    dist.broadcast_object_list(box, src=source)
    value, why_not = box[0]
    if why_not:
        raise TrainingError(why_not)
    return value


def places(of_ranks: list[Machine]) -> str:
    """Which ranks run where, in words."""
    runs = [(host, [rank for rank, _ in group]) for host, group in
            groupby(enumerate(of_ranks), key=lambda pair: pair[1].host)]  # fmt: skip
    if len(runs) == 1:
        return f"{count(len(of_ranks), 'rank')} on {runs[0][0]}"
    where = ", ".join(f"{names(numbers)} on {host}" for host, numbers in runs)
    return f"{count(len(of_ranks), 'rank')} on {len({host for host, _ in runs})} machines: {where}"


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
