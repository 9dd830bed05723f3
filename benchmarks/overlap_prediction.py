"""The simulator's step times against measured ones: real links, three rates, three bucket sizes, N = 2.

    python benchmarks/overlap_prediction.py

As ``course_lib.overlap_timing`` predicts and measures them; ratios are medians over rounds.  The exit status
is 1 if a prediction is off by more than 10%, and also if the rounds' ratios differ so much that nothing can
be said: two ranks need two cores for themselves.
"""

from __future__ import annotations

import statistics
import sys
from datetime import UTC, datetime

from course_lib import links, measurements, overlap_timing
from course_lib.links import Links
from course_lib.overlap_timing import Result

RATES = ("200mbit", "400mbit", "800mbit")
BUCKETS = (0.5, 2.0, 8.0)  # MiB; the gradients are 7.1
MOST = 0.10


def _print(rate: str, result: Result) -> bool:
    step = result.step
    measured = statistics.median(result.seconds)
    ratio, spread = statistics.median(result.ratios), measurements.spread(result.ratios)
    holds = spread <= measurements.CALM and abs(ratio - 1) <= MOST
    judged = "ok" if holds else "!!" if spread <= measurements.CALM else "busy"
    times = (step.backward_end, step.hidden_seconds, step.exposed_seconds, step.seconds, measured)
    columns = "".join(f"{1e3 * seconds:10.1f}" for seconds in times)
    print(f"{rate:>8} {result.bucket_mb:5g} {result.name:>14} {len(step.buckets):8}{columns} "
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
        for result in overlap_timing.measure(BUCKETS, Links(rate, kind="real")):
            good &= _print(rate, result)
    print(f"\n{'all' if good else 'NOT all'} predictions are within {MOST:.0%}; busy: rounds differ by over "
          f"{measurements.CALM:.0%}, so that nothing can be said")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
