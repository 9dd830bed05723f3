"""The simulator's step times against measured ones on real links: a gate, and a report for more ranks.

    python benchmarks/overlap_prediction.py               # N = 2 and 4, some twenty minutes
    python benchmarks/overlap_prediction.py --ranks 8     # reported only, without a bar

Three rates, three bucket sizes, K = 1 and 4 micro-batches, the course's buckets and torch's DDP.  As
``course_lib.overlap_timing`` predicts and measures them: the ratios are medians over rounds, in each of which
all bucket sizes and implementations take turns.  Rounds go on until each median is on one side of the bar by
its standard error or more, or 24 are over.  Layers are timed with all N ranks at once, so that where ranks
share cores this is in the prediction, too; the links' rate is that of an all-reduce, which also needs the
cores.  A faster link is reported without a bar: there the all-reduce's own work slows the backward pass,
which the simulator knows nothing of.  At the end: how long it takes to simulate a step of 4,096 ranks.

The exit status is 1 if a prediction is off by more than 10%, if that simulation takes longer than 50 ms, and
also if this can't be told in the end: ranks need the machine for themselves.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import certainty

from course_lib import links, measurements, overlap_timing
from course_lib.buckets import MIB
from course_lib.links import Links
from course_lib.overlap_timing import BATCH, Result
from course_lib.simulator import Layer, Link, simulate_cluster

RANKS, MICRO_BATCHES = (2, 4), (1, 4)
# Mbit/s for two ranks.  Of more ranks each has less of the cores, so its link gets less, too.
RATES, REPORTED = (100, 200, 400), (800,)
BUCKETS = (1.0, 2.0, 8.0)  # MiB; the gradients are 7.1.  Of less, a quarter would fit into a link's burst.
ROUNDS, MOST_ROUNDS, MOST, MOST_MS = 8, 24, 0.10, 50
COLUMNS = ("compute", "hidden", "exposed", "predicted", "measured")


def judged(ratios: Sequence[float]) -> str:
    return certainty.judged(ratios, 1 - MOST, 1 + MOST)


def measured(rate: str, count: int, micro_batches: int) -> list[Result]:
    """Of each bucket size and implementation, all rounds that it took."""
    found: list[Result] = []
    for _ in range(MOST_ROUNDS // ROUNDS):
        more = overlap_timing.measure(
            BUCKETS, Links(rate, kind="real"), count=count, rounds=ROUNDS, steps=1,
            micro_batches=micro_batches, sequences=BATCH // micro_batches, measured_rate=True,
        )  # fmt: skip
        found = [
            new._replace(predicted=[*old.predicted, *new.predicted], seconds=[*old.seconds, *new.seconds])
            for old, new in zip(found, more, strict=True)
        ] if found else more  # fmt: skip
        if all(judged(result.ratios) != certainty.OPEN for result in found):
            break
    return found


def _row(result: Result, where: str) -> bool:
    """Print it; return whether its prediction is within the bar."""
    step = result.step
    ratio, verdict = statistics.median(result.ratios), judged(result.ratios)
    times = (step.backward_end, step.hidden_seconds, step.exposed_seconds, step.seconds,
             statistics.median(result.seconds))  # fmt: skip
    columns = "".join(f"{1e3 * seconds:10.1f}" for seconds in times)
    compared = f"{len(result.ratios):7} {ratio:10.3f} ±{certainty.uncertainty(result.ratios):.3f} {verdict}"
    settings = f"{where} {result.bucket_mb:5g} {result.name:>14} {len(step.buckets):8}"
    print(f"{settings}{columns} {compared}", flush=True)
    return verdict == certainty.OK


def compare(count: int, rates: Sequence[int]) -> list[bool]:
    """Whether each prediction is within the bar."""
    good = []
    for rate in (f"{of_two * 2 / count:g}mbit" for of_two in rates):
        for micro_batches in MICRO_BATCHES:
            results = measured(rate, count, micro_batches)
            good += [_row(result, f"{count:3} {rate:>8} {micro_batches:3}") for result in results]
    return good


def milliseconds_of_simulating() -> float:
    """A step of 4,096 ranks in 200 buckets, some late, one link slow: the median of nine."""
    layers = [Layer(f"{number}", (26 * MIB,), 1e-3, 2e-3) for number in range(200)]
    seconds = []
    for _ in range(9):
        began = time.perf_counter()
        cluster = simulate_cluster(layers, 4096, Link(10e-6, 50e9), slow_link=Link(10e-6, 5e9), jitter=0.1)
        seconds.append(time.perf_counter() - began)
    assert len(cluster.steps[0].paced_by) == 200
    return 1e3 * statistics.median(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, help="report this number of ranks, without a bar")
    alone = parser.parse_args().ranks
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    if not links.available().real:
        print(f"Real links are needed. {links.available()}")
        return 1
    print("Times in ms. Compute is forward and backward without communication.")
    print(f"{'N':>3} {'link':>8} {'K':>3} {'MiB':>5} {'':>14} {'buckets':>8}"
          f"{''.join(f'{name:>10}' for name in COLUMNS)} {'rounds':>7} {'pred/meas':>10}")  # fmt: skip
    began = time.monotonic()
    good = [each for count in ([alone] if alone else RANKS) for each in compare(count, RATES)]
    print(f"\n{sum(good)} of {len(good)} predictions are within {MOST:.0%}; {time.monotonic() - began:.0f} s")
    print("Reported without a bar:")
    for count in [alone] if alone else RANKS:
        compare(count, REPORTED)
    took = milliseconds_of_simulating()
    print(f"4,096 ranks and 200 buckets are simulated in {took:.1f} ms {'ok' if took <= MOST_MS else '!!'}")
    return 0 if alone or (all(good) and took <= MOST_MS) else 1


if __name__ == "__main__":
    sys.exit(main())
