"""Training steps of a small GPT on links between ranks: predicted from what its layers take, and measured.

    for result in measure([0.5, 2.0, 8.0], Links("400mbit")):
        result.name, result.bucket_mb, result.step.seconds, result.seconds

Predicted is the simulator's step, from what is measured beside it: the layers' times on all ranks at once
without communication, and a link.  That has the latency of all-reduces of one number, and the links' own
rate, or that of a large all-reduce.  Nothing is fitted to measured steps.  A step is
all of it: forward, backward, exposed communication, optimizer.  Whatever is compared takes turns, so that
what else the machine does meets all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib import corpus, ranks
from course_lib.all_reduce import ring
from course_lib.all_reduce_timing import slowest
from course_lib.arguments import one_of, whole_number
from course_lib.cost_model import all_reduce_seconds, terms
from course_lib.layer_times import StepTimes
from course_lib.layer_times import measure as measure_layers
from course_lib.links import Links
from course_lib.overlap import BucketedDataParallel
from course_lib.simulator import Link, Step, simulate_step
from course_lib.timing import seconds_of
from course_lib.transformer import GPT, TransformerConfig

CONFIG = TransformerConfig(layers=4, hidden=192, heads=4, vocab=corpus.VOCAB, context=128)  # 7.1 MiB
BATCH = 4  # sequences
RING, DDP = "course's ring", "torch's DDP"
_SMALL_CALLS = 50
_LARGE = 2**23  # bytes, of which an idle link's burst is a small part


class Implementation(NamedTuple):
    """``wrap(module, bucket_mb)`` is the module whose gradients are averaged, by ``all_reduce``."""

    wrap: Callable[[torch.nn.Module, float], BucketedDataParallel | DistributedDataParallel]
    all_reduce: Callable[[torch.Tensor], object]


def _ddp(module: torch.nn.Module, bucket_mb: float) -> DistributedDataParallel:
    """All its buckets have this size, but for the first step's."""
    return DistributedDataParallel(module, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)


def _bucketed(module: torch.nn.Module, bucket_mb: float) -> BucketedDataParallel:
    return BucketedDataParallel(module, bucket_mb, first_bucket_mb=bucket_mb)


IMPLEMENTATIONS = {RING: Implementation(_bucketed, ring), DDP: Implementation(_ddp, dist.all_reduce)}


class Result(NamedTuple):
    """An implementation with buckets of one size.

    ``predicted``: a step for each round; ``seconds``: of measured steps, equally many of each round in turn.
    """

    name: str
    bucket_mb: float
    predicted: list[Step]
    seconds: list[float]

    @property
    def step(self) -> Step:
        """The median one of the predicted steps."""
        middle = median(step.seconds for step in self.predicted)
        return min(self.predicted, key=lambda step: abs(step.seconds - middle))

    @property
    def ratios(self) -> list[float]:
        """Predicted over measured, round by round: what else the machine does meets both."""
        steps = len(self.seconds) // len(self.predicted)
        rounds = (self.seconds[first : first + steps] for first in range(0, len(self.seconds), steps))
        return [
            step.seconds / median(seconds) for step, seconds in zip(self.predicted, rounds, strict=True)
        ]


def measure(
    bucket_mbs: Sequence[float], links: Links, names: Sequence[str] = tuple(IMPLEMENTATIONS), *,
    count: int = 2, rounds: int = 5, steps: int = 3, micro_batches: int = 1, sequences: int = BATCH,
    measured_rate: bool = False,
) -> list[Result]:  # fmt: skip
    """Predicted and measured steps of each implementation with buckets of each size, on ``count`` ranks.

    A predicted step comes from each of the ``rounds``, and ``steps`` measured ones, of the slowest rank each.
    A step has ``micro_batches`` of ``sequences`` on each rank.  ``measured_rate``: predict from that of an
    all-reduce in each round, not from the links' own.  On links that are paced in software, DDP's messages
    are not slow, and DDP is left out.  Raises ValueError for an unknown name.
    """
    chosen = [one_of("name", name, IMPLEMENTATIONS) for name in names if links.is_real or name != DDP]
    bandwidth = None if measured_rate else links.bandwidth
    of_ranks = ranks.run(_compare, count, list(bucket_mbs), chosen, bandwidth, rounds, steps,
                         whole_number("micro_batches", micro_batches), sequences,
                         links=links, timeout=120)  # fmt: skip
    return [
        same[0]._replace(seconds=slowest(each.seconds for each in same))
        for same in zip(*of_ranks, strict=True)
    ]


def _compare(
    bucket_mbs: Sequence[float], names: Sequence[str], bandwidth: float | None, rounds: int, steps: int,
    micro_batches: int, sequences: int,
) -> list[Result]:  # fmt: skip
    """Inside a rank, whose link carries ``bandwidth`` bytes/s; None: that is to be found."""
    torch.set_num_threads(1)  # several would wait for each other wherever the cores are shared
    all_reduces = {name: IMPLEMENTATIONS[name].all_reduce for name in names}
    found = [Result(name, bucket_mb, [], []) for bucket_mb in bucket_mbs for name in names]
    running = [_seconds_of_steps(each.name, each.bucket_mb, micro_batches, sequences) for each in found]
    for _ in range(rounds):
        times = layer_times(steps, sequences)
        links = {name: measured_link(all_reduces[name], bandwidth) for name in names}
        for result, seconds in zip(found, running, strict=True):
            result.predicted.append(_predicted(times, result.bucket_mb, micro_batches, links[result.name]))
            result.seconds.extend(next(seconds) for _ in range(steps))
    return found


def _predicted(times: StepTimes, bucket_mb: float, micro_batches: int, link: Link) -> Step:
    count = dist.get_world_size()
    return simulate_step(
        times.layers, lambda size: all_reduce_seconds("ring", size, count, link.latency, link.bandwidth),
        bucket_mb=bucket_mb, first_bucket_mb=bucket_mb, micro_batches=micro_batches,
        optimizer_seconds=times.optimizer_seconds,
    )  # fmt: skip


# --- inside a rank ---


def latency(all_reduce: Callable[[torch.Tensor], object]) -> float:
    """Seconds of a message of an all-reduce that has nothing to carry, between at least two ranks."""
    calls = [seconds_of(lambda: all_reduce(torch.ones(1))) for _ in range(_SMALL_CALLS)]
    return median(calls) / terms("ring", dist.get_world_size()).messages


def measured_link(
    all_reduce: Callable[[torch.Tensor], object], bandwidth: float | None = None
) -> Link:
    """The link of the cost model's ring that takes as long as this all-reduce on the slowest rank.

    Its latency from sums of one number, its bandwidth, unless that is given, from one of 8 MiB.  Between at
    least two ranks, all of which get the same answer.
    """
    messages, tensors = terms("ring", dist.get_world_size())
    of_a_message = _slowest(latency(all_reduce))
    if bandwidth is None:
        tensor = torch.ones(_LARGE // 4)
        large = _slowest(seconds_of(lambda: all_reduce(tensor)))
        bandwidth = tensors * _LARGE / (large - messages * of_a_message)
    return Link(of_a_message, bandwidth)


def _slowest(seconds: float) -> float:
    """Of all ranks."""
    of_ranks = [0.0] * dist.get_world_size()
    dist.all_gather_object(of_ranks, seconds)
    return max(of_ranks)


def layer_times(repeats: int = 9, sequences: int = BATCH) -> StepTimes:
    """What the layers of the small GPT take on all ranks at once."""
    module, optimizer, loss_of = training(sequences)
    return measure_layers(module, lambda: loss_of(module), optimizer, repeats)


def training(
    sequences: int = BATCH,
) -> tuple[torch.nn.Module, torch.optim.Optimizer, Callable[[torch.nn.Module], torch.Tensor]]:
    """The small GPT, its optimizer, and the loss of a module on this rank's batch: the same at each call."""
    torch.manual_seed(0)
    module = GPT(CONFIG, attention="fused")
    generator = torch.Generator().manual_seed(dist.get_rank())
    inputs, targets = corpus.batch(corpus.tokens(), sequences, CONFIG.positions, generator)

    def loss_of(module: torch.nn.Module) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(module(inputs).flatten(0, 1), targets.flatten())

    return module, torch.optim.AdamW(module.parameters(), lr=1e-4), loss_of


def _seconds_of_steps(name: str, bucket_mb: float, micro_batches: int, sequences: int) -> Iterator[float]:
    """Seconds of one step after the other."""
    module, optimizer, loss_of = training(sequences)
    parallel = IMPLEMENTATIONS[name].wrap(module, bucket_mb)

    def backward() -> None:
        (loss_of(parallel) / micro_batches).backward()

    def step() -> None:
        optimizer.zero_grad()
        with parallel.no_sync():
            for _ in range(micro_batches - 1):
                backward()
        backward()
        if isinstance(parallel, BucketedDataParallel):
            parallel.finish()
        optimizer.step()

    for _ in range(2):  # DDP's buckets are filled anew after the first one
        step()
    while True:
        yield seconds_of(step)
