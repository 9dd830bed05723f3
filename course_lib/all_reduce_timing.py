"""How long all-reduces take: measured as lesson 04 and the benchmarks do it.

Filling the tensor and meeting at a barrier come before the clock starts.  Functions that are compared take
turns, so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from course_lib import all_reduce, ranks
from course_lib.arguments import one_of, whole_number

if TYPE_CHECKING:
    from course_lib.links import Links

TORCH = "torch's own"
ALL_REDUCES: dict[str, Callable[[torch.Tensor], object]] = {
    "star": all_reduce.star,
    "unchunked-ring": all_reduce.unchunked_ring,
    "ring": all_reduce.ring,
    TORCH: dist.all_reduce,
}


def measure(
    algorithms: Sequence[str], bytes: int, count: int, links: Links | None = None, repeats: int = 3
) -> dict[str, list[float]]:
    """Seconds of each repeat of each algorithm, on ``count`` ranks: those of the rank that took longest.

    ``bytes`` of float32 are summed.  On links that are paced in software, torch's own all-reduce has no time
    that would mean anything, and is left out.  Raises ValueError for an unknown algorithm, and for bytes that
    are no multiple of 4.
    """
    names = [one_of("algorithm", name, ALL_REDUCES) for name in algorithms]
    if links is not None and not links.is_real:
        names = [name for name in names if name != TORCH]
    elements, rest = divmod(whole_number("bytes", bytes), 4)
    if rest:
        raise ValueError(f"bytes={bytes!r}: expected a multiple of 4, the size of a float32")
    of_ranks = ranks.run(take_turns, count, names, elements, repeats, links=links)
    return {name: slowest(each[name] for each in of_ranks) for name in names}


def slowest(of_ranks: Iterable[Sequence[float]]) -> list[float]:
    """Repeat by repeat, the longest seconds of any rank: an all-reduce is done when all have the sum."""
    return [max(repeat) for repeat in zip(*of_ranks, strict=True)]


def take_turns(algorithms: Sequence[str], elements: int, repeats: int) -> dict[str, list[float]]:
    """Inside a rank: this rank's seconds of each repeat.  Raises RuntimeError if a sum is wrong."""
    tensor = torch.empty(elements, device=ranks.device())
    rank, count = dist.get_rank(), dist.get_world_size()
    seconds: dict[str, list[float]] = {name: [] for name in algorithms}
    for name in algorithms:
        ALL_REDUCES[name](torch.ones(1, device=tensor.device))  # what only a first call does
    for _ in range(repeats):
        for name in algorithms:
            tensor.fill_(rank + 1)
            dist.barrier()
            _finish(tensor)
            began = time.perf_counter()
            ALL_REDUCES[name](tensor)
            _finish(tensor)
            seconds[name].append(time.perf_counter() - began)
            if not (tensor == count * (count + 1) / 2).all():
                raise RuntimeError(f"{name} left a wrong sum")
    return seconds


def _finish(tensor: torch.Tensor) -> None:
    """A GPU's work may still be under way when the call returns."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
