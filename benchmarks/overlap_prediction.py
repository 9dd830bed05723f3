"""The simulator's step times against measured ones on real links: a gate, and a report for more ranks.

    python benchmarks/overlap_prediction.py               # N = 2 and 4, some five minutes
    python benchmarks/overlap_prediction.py --ranks 8     # reported only, without a bar

Three rates, three bucket sizes, K = 1 and 4 micro-batches, the course's buckets and torch's DDP.  As
``course_lib.overlap_timing`` predicts and measures them: the ratios are medians over rounds, in each of which
all bucket sizes and implementations take turns.  Layers are timed with all N ranks at once, so that where
ranks share cores this is in the prediction, too; the links' rate is that of an all-reduce, which also needs
the cores.  At the end: how long it takes to simulate a step of 4,096 ranks.

The exit status is 1 if a prediction is off by more than 10%, if that simulation takes longer than 50 ms, and
also if the rounds' ratios differ so much that nothing can be said: ranks need the machine for themselves.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from datetime import UTC, datetime

from course_lib import links, measurements, overlap_timing
from course_lib.buckets import MIB
from course_lib.links import Links
from course_lib.overlap_timing import BATCH, Result
from course_lib.simulator import Layer, Link, simulate_cluster

RANKS, MICRO_BATCHES = (2, 4), (1, 4)
# Mbit/s for two ranks.  Of more ranks each has less of the cores, so its link gets less, too: the faster ones
# would wait for the cores, which the simulator knows nothing of.
RATES = (200, 400, 800)
BUCKETS = (1.0, 2.0, 8.0)  # MiB; the gradients are 7.1.  Of less, a quarter would fit into a link's burst.
ROUNDS, MOST, MOST_MS = 4, 0.10, 50
COLUMNS = ("compute", "hidden", "exposed", "predicted", "measured")


def _row(result: Result, where: str) -> float:
    """Print it; return by how much its prediction is off, infinity where nothing can be said."""
    step = result.step
    measured = statistics.median(result.seconds)
    ratio, spread = statistics.median(result.ratios), measurements.spread(result.ratios)
    calm = spread <= measurements.CALM
    judged = "busy" if not calm else "ok" if abs(ratio - 1) <= MOST else "!!"
    times = (step.backward_end, step.hidden_seconds, step.exposed_seconds, step.seconds, measured)
    columns = "".join(f"{1e3 * seconds:10.1f}" for seconds in times)
    print(f"{where} {result.bucket_mb:5g} {result.name:>14} {len(step.buckets):8}{columns} "
          f"{spread:7.0%} {ratio:10.3f} {judged}", flush=True)  # fmt: skip
    return abs(ratio - 1) if calm else math.inf


def compare(count: int) -> list[float]:
    """By how much each prediction is off."""
    off = []
    for rate in (f"{of_two * 2 / count:g}mbit" for of_two in RATES):
        for micro_batches in MICRO_BATCHES:
            results = overlap_timing.measure(
                BUCKETS, Links(rate, kind="real"), count=count, rounds=ROUNDS, steps=1,
                micro_batches=micro_batches, sequences=BATCH // micro_batches, measured_rate=True,
            )  # fmt: skip
            off += [_row(result, f"{count:3} {rate:>8} {micro_batches:3}") for result in results]
    return off


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
          f"{''.join(f'{name:>10}' for name in COLUMNS)} {'spread':>7} {'pred/meas':>10}")  # fmt: skip
    began = time.monotonic()
    off = [each for count in ([alone] if alone else RANKS) for each in compare(count)]
    good = sum(each <= MOST for each in off)
    print(f"\n{good} of {len(off)} predictions are within {MOST:.0%}, the worst is off by {max(off):.0%}; "
          f"busy: rounds differ by over {measurements.CALM:.0%}, so nothing can be said. "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
    took = milliseconds_of_simulating()
    print(f"4,096 ranks and 200 buckets are simulated in {took:.1f} ms {'ok' if took <= MOST_MS else '!!'}")
    return 0 if alone or (good == len(off) and took <= MOST_MS) else 1


if __name__ == "__main__":
    sys.exit(main())
