"""The simulator's step times against measured ones: real links, three rates, three bucket sizes, N = 2.

    python benchmarks/overlap_prediction.py

Predicted is the simulator's step, from what is measured beside it: the layers' times on both ranks at once
without communication, the link's rate, and what the all-reduce takes for one number.  Nothing is fitted to
measured steps.  A step is all of it: forward, backward, exposed communication, optimizer.  The exit status is
1 if a prediction is off by more than 10%, and also if steps differ so much that nothing can be said: two
ranks need two cores for themselves.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib import corpus, links, measurements, ranks
from course_lib.all_reduce import ring
from course_lib.cost_model import all_reduce_seconds, terms
from course_lib.layer_times import StepTimes, measure
from course_lib.links import Links
from course_lib.overlap import BucketedDataParallel
from course_lib.simulator import Step, simulate_step
from course_lib.transformer import GPT, TransformerConfig

CONFIG = TransformerConfig(layers=4, hidden=192, heads=4, vocab=corpus.VOCAB, context=128)
BATCH = 4  # sequences
RATES = ("200mbit", "400mbit", "800mbit")
BUCKETS = (0.5, 2.0, 8.0)  # MiB; the gradients are 7.1
RANKS, ROUNDS, STEPS, SMALL = 2, 5, 3, 50
MOST = 0.10


class Implementation(NamedTuple):
    """``wrap(module, bucket_mb)`` is the module whose gradients are averaged, by ``all_reduce``."""

    wrap: Callable[[torch.nn.Module, float], torch.nn.Module]
    all_reduce: Callable[[torch.Tensor], object]


def _ddp(module: torch.nn.Module, bucket_mb: float) -> torch.nn.Module:
    """All its buckets have this size, but for the first step's."""
    return DistributedDataParallel(module, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)


def _bucketed(module: torch.nn.Module, bucket_mb: float) -> torch.nn.Module:
    return BucketedDataParallel(module, bucket_mb, first_bucket_mb=bucket_mb)


IMPLEMENTATIONS = {
    "course's ring": Implementation(_bucketed, ring),
    "torch's DDP": Implementation(_ddp, dist.all_reduce),
}


class Result(NamedTuple):
    """One implementation with one size of buckets: the steps predicted, one a round, and seconds of steps."""

    name: str
    bucket_mb: float
    predicted: list[Step]
    seconds: list[float]


def compare(bandwidth: float) -> list[Result]:
    """Inside a rank, whose link carries ``bandwidth`` bytes/s."""
    torch.set_num_threads(1)
    latencies = {name: _latency(each.all_reduce) for name, each in IMPLEMENTATIONS.items()}
    results = []
    for bucket_mb in BUCKETS:
        running = {name: _steps(each.wrap, bucket_mb) for name, each in IMPLEMENTATIONS.items()}
        found = {name: Result(name, bucket_mb, [], []) for name in running}
        for _ in range(ROUNDS):  # in turns, so that whatever else the machine does meets all of them
            times = _layer_times()
            for name, steps in running.items():
                found[name].predicted.append(_predicted(times, bucket_mb, latencies[name], bandwidth))
                found[name].seconds.extend(next(steps) for _ in range(STEPS))
        results.extend(found.values())
    return results


def _predicted(times: StepTimes, bucket_mb: float, latency: float, bandwidth: float) -> Step:
    return simulate_step(
        times.layers, lambda size: all_reduce_seconds("ring", size, RANKS, latency, bandwidth),
        bucket_mb=bucket_mb, first_bucket_mb=bucket_mb, optimizer_seconds=times.optimizer_seconds,
    )  # fmt: skip


def _latency(all_reduce: Callable[[torch.Tensor], object]) -> float:
    """Seconds of a message of an all-reduce that has nothing to carry."""
    calls = [_timed(lambda: all_reduce(torch.ones(1))) for _ in range(SMALL)]
    return statistics.median(calls) / terms("ring", RANKS).messages


def _timed(function: Callable[[], object]) -> float:
    dist.barrier()
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _layer_times() -> StepTimes:
    module, optimizer, loss_of = _training()
    return measure(module, lambda: loss_of(module), optimizer, STEPS)


def _steps(wrap: Callable[[torch.nn.Module, float], torch.nn.Module], bucket_mb: float) -> Iterator[float]:
    """Seconds of one step after the other."""
    module, optimizer, loss_of = _training()
    parallel = wrap(module, bucket_mb)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(parallel).backward()
        if hasattr(parallel, "finish"):
            parallel.finish()
        optimizer.step()

    for _ in range(2):  # DDP's buckets are rebuilt after the first one
        step()
    while True:
        yield _timed(step)


def _training() -> tuple[torch.nn.Module, torch.optim.Optimizer, Callable[[torch.nn.Module], torch.Tensor]]:
    torch.manual_seed(0)
    module = GPT(CONFIG, attention="fused")
    generator = torch.Generator().manual_seed(dist.get_rank())
    inputs, targets = corpus.batch(corpus.tokens(), BATCH, CONFIG.context, generator)

    def loss_of(module: torch.nn.Module) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(module(inputs).flatten(0, 1), targets.flatten())

    return module, torch.optim.AdamW(module.parameters(), lr=1e-4), loss_of


def _print(rate: str, of_ranks: tuple[Result, ...]) -> bool:
    first = of_ranks[0]
    predicted = statistics.median(step.seconds for step in first.predicted)
    step = min(first.predicted, key=lambda step: abs(step.seconds - predicted))  # the median one
    slowest = [max(times) for times in zip(*(each.seconds for each in of_ranks), strict=True)]
    measured = statistics.median(slowest)
    ratio, spread = predicted / measured, measurements.spread(slowest)
    holds = spread <= measurements.CALM and abs(ratio - 1) <= MOST
    judged = "ok" if holds else "!!" if spread <= measurements.CALM else "busy"
    times = (step.backward_end, step.hidden_seconds, step.exposed_seconds, predicted, measured)
    columns = "".join(f"{1e3 * seconds:10.1f}" for seconds in times)
    print(f"{rate:>8} {first.bucket_mb:5g} {first.name:>14} {len(step.buckets):8}{columns} "
          f"{spread:7.0%} {ratio:10.3f} {judged}", flush=True)  # fmt: skip
    return holds


def main() -> int:
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    if not links.available().real:
        print(f"Real links are needed. {links.available()}")
        return 1
    print("Times in ms. Compute is forward and backward without communication.")
    print(f"{'link':>8} {'MiB':>5} {'':>14} {'buckets':>8}{'compute':>10}{'hidden':>10}{'exposed':>10}"
          f"{'predicted':>10}{'measured':>10} {'spread':>7} {'pred/meas':>10}")  # fmt: skip
    good = True
    for rate in RATES:
        link = Links(rate, kind="real")
        of_ranks = ranks.run(compare, RANKS, link.bandwidth, links=link, timeout=120)
        for rows in zip(*of_ranks, strict=True):
            good &= _print(rate, rows)
    print(f"\n{'all' if good else 'NOT all'} predictions are within {MOST:.0%}; busy: steps differ by over "
          f"{measurements.CALM:.0%}, so that nothing can be said")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
