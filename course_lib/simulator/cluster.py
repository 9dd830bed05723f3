"""Training steps on thousands of ranks: who is late, who waits for whom, and what one slow link costs.

    cluster = simulate_cluster(layers, 4096, Link(latency=10e-6, bandwidth=50e9), jitter=0.05, steps=10)
    cluster.seconds, cluster.exposed_seconds, cluster.idle_seconds      # medians over the steps
    cluster.steps[0].waited                                             # seconds, rank by rank

Each rank goes through the step of ``simulate_step`` at a pace of its own.  Buckets are summed by rings, one
after another.  A ring is 2 (N-1) rounds.  In each of them every rank sends a chunk, 1/N of the bucket, to its
right neighbor and receives one from its left neighbor; it begins the next round when both have arrived.  A
message moves when both of its ranks are in its round, and takes latency + bytes / bandwidth of its link.

That is exact, and still needs no look at single messages, of which 4,096 ranks have 33 million a bucket.
Where all links are alike, each rank waits for the latest of all, since a ring has more rounds than it takes
from any rank to any other:

    end = max(start) + 2 (N-1) w,          w = latency + bytes / (N bandwidth)

Where one link takes v > w for a chunk, its two ranks pace everybody: 2 (N-1) v.  A rank that is d ranks away
from the nearer of them may begin d (v - w) late without any loss, and ends by as much before them:

    end(r) = max over q of (start(q) - d(q) (v - w)) + 2 (N-1) v - d(r) (v - w)

A link that is faster than the others changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from course_lib.arguments import number, whole_number
from course_lib.cost_model import terms
from course_lib.simulator.step import Assignment, Layer, Step, simulate_step

MOST_RANKS = 4096
LEFT_OUT = (
    "congestion, where messages share a cable or a switch",
    "topology: links inside a machine and between machines are of one kind",
    "NCCL's trees and parallel rings, and sums made in the switch",
    "compute that communication slows down, on shared cores or memory",
    "optimizers that communicate, as ZeRO's",
    "data loading, checkpoints, failures and restarts",
)
_MOST_JITTER = 2.0  # beyond, the slowest of 4,096 ranks would take thousands of times as long as most


@dataclass(frozen=True)
class Link:
    """From a rank to its right neighbor: seconds of a message without bytes, and bytes/s.

    Raises ValueError for numbers that can't be.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        number("latency", self.latency, least=0)
        number("bandwidth", self.bandwidth)

    def seconds(self, bytes: float) -> float:
        """Of a message with so many bytes."""
        return self.latency + bytes / self.bandwidth


@dataclass(frozen=True)
class ClusterStep:
    """A step of all ranks.  Arrays have a number for each rank; times in seconds from the first step's start.

    ``waited``: seconds in all-reduces by which others were later than this rank.  ``paced_by``: for each
    bucket the rank for which all others waited, None where nobody had to.
    """

    begins: np.ndarray
    backward_ends: np.ndarray
    communication_ends: np.ndarray
    ends: np.ndarray
    waited: np.ndarray
    paced_by: tuple[int | None, ...]

    @property
    def seconds(self) -> float:
        """From the last rank's beginning to the last rank's end."""
        return float(self.ends.max() - self.begins.max())

    @property
    def exposed(self) -> np.ndarray:
        """Of each rank: after its backward pass, and before its optimizer can begin."""
        return self.communication_ends - self.backward_ends

    @property
    def idle_seconds(self) -> float:
        """From a rank's backward pass to the last one's: what it waits for ranks that are late.  The mean."""
        return float((self.backward_ends.max() - self.backward_ends).mean())

    @property
    def exposed_seconds(self) -> float:
        """What ranks wait for links, when no backward pass is under way any more.  The mean."""
        return max(0.0, float((self.communication_ends - self.backward_ends.max()).mean()))


@dataclass(frozen=True)
class Cluster:
    """Some steps one after the other, without a pause.  The three times are medians over the steps."""

    steps: tuple[ClusterStep, ...]

    @property
    def seconds(self) -> float:
        return median(step.seconds for step in self.steps)

    @property
    def exposed_seconds(self) -> float:
        return median(step.exposed_seconds for step in self.steps)

    @property
    def idle_seconds(self) -> float:
        return median(step.idle_seconds for step in self.steps)

    @cached_property
    def paced_by(self) -> Counter[int]:
        """For how many buckets everybody waited for a rank; those that paced none are left out."""
        return Counter(rank for step in self.steps for rank in step.paced_by if rank is not None)


def simulate_cluster(
    layers: Iterable[Layer],
    ranks: int,
    link: Link,
    *,
    slow_link: Link | None = None,
    slow_sender: int = 0,
    jitter: float = 0.0,
    slow_ranks: Mapping[int, float] | None = None,
    steps: int = 1,
    seed: int = 0,
    bucket_mb: float = 25.0,
    first_bucket_mb: float = 1.0,
    overlap: bool = True,
    micro_batches: int = 1,
    optimizer_seconds: float = 0.0,
    assignment: Assignment | None = None,
) -> Cluster:
    """``steps`` steps of ``ranks`` ranks in a ring of ``link``.

    ``slow_link``: the one from rank ``slow_sender`` to its right neighbor.  A slow network card slows down
    two links, in and out; for the step it is the same.

    ``slow_ranks``: rank -> factor of all that it computes, in each step.  ``jitter``: what a rank computes in
    a step, forward, backward and optimizer, takes exp(jitter · z) times as long as usual.  ``seed`` draws a z
    for each rank and step from the standard normal distribution, so the median factor is 1; a rank's does not
    depend on how many ranks there are.  Ranks wait for each other in all-reduces only: who is early begins
    its next step early.

    Others as in ``simulate_step``.  Raises ValueError for numbers that can't be, and as ``simulate_step``
    does.
    """
    count = _count("ranks", ranks, 1, MOST_RANKS)
    plan = simulate_step(
        layers, _nothing, bucket_mb=bucket_mb, first_bucket_mb=first_bucket_mb, overlap=overlap,
        micro_batches=micro_batches, optimizer_seconds=optimizer_seconds, assignment=assignment,
    )  # fmt: skip
    away = _away(count, _count("slow_sender", slow_sender, 0, count - 1))
    rings = [_Ring.of(bucket.bytes, count, link, slow_link or link, away) for bucket in plan.buckets]
    begins, done = np.zeros(count), []
    for factors in _factors(count, jitter, slow_ranks or {}, whole_number("steps", steps), seed):
        done.append(_step(plan, rings, begins, factors))
        begins = done[-1].ends
    return Cluster(tuple(done))


def channel_end(ready: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """When all buckets are reduced one after another, each from ``ready`` on or when the one before is done.

    ``ready``: seconds, for each bucket in their order.  ``seconds``: what a bucket takes, in an array whose
    last axis is the buckets; the result has its other axes.  It is that of ``simulate_step``, for many links
    or numbers of ranks at once: some bucket starts the moment it is ready, and from then on the channel is
    never free.
    """
    to_the_end = np.cumsum(seconds[..., ::-1], axis=-1)[..., ::-1]
    return (ready + to_the_end).max(axis=-1)


# --- one step ---


class _Ring(NamedTuple):
    """The all-reduce of one bucket.

    ``seconds``: of the ranks at its slowest link, where no rank is late.  ``slack``: by how much earlier the
    others end, and by how much later they may begin.
    """

    seconds: float
    slack: np.ndarray

    @classmethod
    def of(cls, bytes: int, ranks: int, link: Link, slow_link: Link, away: np.ndarray) -> _Ring:
        chunk = bytes / ranks
        usual, slowest = link.seconds(chunk), max(link.seconds(chunk), slow_link.seconds(chunk))
        return cls(terms("ring", ranks).messages * slowest, away * (slowest - usual))


def _step(plan: Step, rings: list[_Ring], begins: np.ndarray, factors: np.ndarray) -> ClusterStep:
    backward_ends = begins + factors * plan.backward_end
    free, waited, paced_by = begins, np.zeros_like(begins), []
    for bucket, ring in zip(plan.buckets, rings, strict=True):
        starts = np.maximum(begins + factors * bucket.start, free)
        in_time = starts - ring.slack
        last = int(in_time.argmax())
        latest = in_time[last]
        waited += np.maximum(latest - starts, 0.0)
        paced_by.append(last if starts.min() < latest else None)
        free = latest + ring.seconds - ring.slack
    communication_ends = np.maximum(backward_ends, free)
    ends = communication_ends + factors * plan.optimizer_seconds
    return ClusterStep(begins, backward_ends, communication_ends, ends, waited, tuple(paced_by))


def _nothing(bytes: int) -> float:
    """So that a bucket starts when it is ready, and its ring can be put there."""
    return 0.0


def _away(ranks: int, sender: int) -> np.ndarray:
    """How many ranks each is away from the nearer end of the sender's link."""
    right = (np.arange(ranks) - sender) % ranks  # of the sender
    return np.minimum(np.maximum(right - 1, 0), ranks - right)


def _factors(
    ranks: int, jitter: float, slow_ranks: Mapping[int, float], steps: int, seed: int
) -> Iterator[np.ndarray]:
    """What each rank's computing takes in each step, relative to the usual."""
    spread = number("jitter", jitter, least=0, most=_MOST_JITTER)
    usual = np.ones(ranks)
    if not isinstance(slow_ranks, Mapping):
        raise ValueError(f"slow_ranks={slow_ranks!r:.60}: expected a dict, such as {{3: 1.5}}")
    for rank, factor in slow_ranks.items():
        usual[_count("slow_ranks", rank, 0, ranks - 1)] = number("slow_ranks", factor)
    for step in range(steps):
        random = np.random.default_rng([whole_number("seed", seed, least=0), step])
        yield usual * np.exp(spread * random.standard_normal(ranks))


def _count(name: str, value: object, least: int, most: int) -> int:
    return int(number(name, whole_number(name, value, least), least, most))
