"""The waterfall from peak to U: how much of a step its parts leave unexplained, with overlap and without.

    python benchmarks/utilization.py

On links of 400 Mbit/s, two ranks, as in lesson 07.  Each part is measured by itself; several runs, and their
median.  The exit status is 1 if more than 5% are unexplained, with overlap or without.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from datetime import UTC, datetime

from course_lib import measurements, overlap_timing
from course_lib.links import Links
from course_lib.measured_utilization import measure_parts
from course_lib.utilization import MOST_UNEXPLAINED

RUNS, REPEATS, BUCKET_MB = 5, 9, 0.5


def unexplained(overlap: bool) -> list[float]:
    """Shares of the step, one for each run."""
    shares = []
    for _ in range(RUNS):
        measured = measure_parts(
            overlap_timing.CONFIG, overlap_timing.BATCH, overlap_timing.CONFIG.context, 2, overlap=overlap,
            bucket_mb=BUCKET_MB, first_bucket_mb=BUCKET_MB, links=Links("400mbit"), repeats=REPEATS,
        )  # fmt: skip
        found = measured.parts.shares()
        print(f"{measured.setting}, repeats differ by {measured.spread:.0%}: "
              + ", ".join(f"{name} {share:.1%}" for name, share in found.items()))  # fmt: skip
        shares.append(found["unexplained"])
    return shares


def main() -> int:
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    good = True
    for overlap in (False, True):
        share = statistics.median(unexplained(overlap))
        how = "with" if overlap else "without"
        print(f"unexplained {how} overlap: {share:.1%}, limit {MOST_UNEXPLAINED:.0%}")
        good &= abs(share) <= MOST_UNEXPLAINED
    return not good


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
