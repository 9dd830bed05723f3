"""All-reduces against torch's own, against the limit of the links, and against the cost model.

    python benchmarks/all_reduce.py

Medians and their ratios, from one run in which the functions that are compared take turns.  Filling the
tensor and the barrier before it are not in the times.  Predicted is the cost model with the links' rate and
no latency; the ring's prediction is then the limit, 2 (N-1)/N of the tensor through each link.  !! marks a
ratio that misses its bar, and then the exit status is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from course_lib import cost_model, links, measurements
from course_lib.all_reduce_timing import TORCH, measure
from course_lib.links import Links

MIB = 2**20
SLOW = Links("400mbit", kind="real")
REPEATS, REPEATS_ON_LOOPBACK = 5, 15
ALL = ("ring", TORCH, "unchunked-ring", "star")
FAST = ALL[:2]

COLUMNS = ("ring/torch", "ring/limit", "torch/limit", "unchunked/ring", "unchunked/pred", "star/pred")
Bars = Mapping[str, tuple[float, float]]  # column -> least and most
BAR = {
    "ring/torch": (0, 1.05), "unchunked/ring": (0.85, 1.15),
    "ring/limit": (0.9, 1.1), "unchunked/pred": (0.9, 1.1), "star/pred": (0.9, 1.1),
}  # fmt: skip
BARS_OF_8 = {name: BAR[name] for name in ("ring/torch", "unchunked/ring", "star/pred")}

# Ranks, MiB, algorithms, bars.  On 8 ranks, the slow ones would take minutes.
ROWS: list[tuple[int, float, tuple[str, ...], Bars]] = [
    *((ranks, size, ALL, BAR) for ranks in (2, 4) for size in (8, 16, 32)),
    (8, 8, ALL, BARS_OF_8),
    *((8, size, FAST, BARS_OF_8) for size in (16, 32)),
    *((ranks, size, ALL, {}) for ranks in (2, 4, 8) for size in (1, 1 / 16)),
]
WHY_NO_BARS = f"""\
no mark: no bar.  8 ranks are slower than predicted where they share cores: waiting for a turn to run is not
in the model.  Small tensors are faster, since an idle link passes {links.BURST >> 10} KiB at once; or
slower, for the turns again, at every message."""


def medians(
    names: tuple[str, ...], size: int, ranks: int, on: Links | None, repeats: int
) -> dict[str, float]:
    """Each algorithm's median seconds, and as ``spread`` by how much repeats differ at most."""
    seconds = measure(names, size, ranks, on, repeats)
    found = {name: statistics.median(times) for name, times in seconds.items()}
    return {**found, "spread": max(map(measurements.spread, seconds.values()))}


def ratios(found: Mapping[str, float], size: int, ranks: int) -> dict[str, float]:
    """Those of COLUMNS that were measured."""
    predicted = {name: cost_model.all_reduce_seconds(name, size, ranks, 0, SLOW.bandwidth)
                 for name in ("ring", "unchunked-ring", "star")}  # fmt: skip
    result = {
        "ring/torch": found["ring"] / found[TORCH],
        "ring/limit": found["ring"] / predicted["ring"],
        "torch/limit": found[TORCH] / predicted["ring"],
    }
    if "star" in found:
        result["unchunked/ring"] = found["unchunked-ring"] / found["ring"] / (ranks / 2)
        result["unchunked/pred"] = found["unchunked-ring"] / predicted["unchunked-ring"]
        result["star/pred"] = found["star"] / predicted["star"]
    return result


def on_loopback() -> bool:
    found = medians(FAST, 64 * MIB, 4, None, REPEATS_ON_LOOPBACK)
    ratio = found["ring"] / found[TORCH]
    print(f"4 ranks, 64 MiB, loopback: ring {found['ring']:.4f} s, torch's own {found[TORCH]:.4f} s, spread "
          f"{found['spread']:.0%}\nring/torch {ratio:.3f}, at most 1: {'ok' if ratio <= 1 else 'MISSED'}\n",
          flush=True)  # fmt: skip
    return ratio <= 1


def on_links() -> bool:
    print(f"{SLOW.label}; unchunked/ring is over N/2")
    print(f"{'N':>2} {'MiB':>6} {'ring s':>8} {'spread':>7}" + "".join(f"{name:>16}" for name in COLUMNS))
    good = True
    for ranks, mebibytes, names, bars in ROWS:
        size = round(mebibytes * MIB)
        found = medians(names, size, ranks, SLOW, REPEATS)
        cells = {name: _Cell(ratio, bars.get(name)) for name, ratio in ratios(found, size, ranks).items()}
        columns = "".join(f"{cells.get(name, '–')!s:>16}" for name in COLUMNS)
        print(f"{ranks:2} {mebibytes:6.4g} {found['ring']:8.4f} {found['spread']:7.0%}{columns}", flush=True)
        good &= all(cell.holds for cell in cells.values())
    print("bars: " + ", ".join(f"{name} {least:g} to {most:g}" for name, (least, most) in BAR.items()))
    print(WHY_NO_BARS)
    return good


class _Cell(NamedTuple):
    ratio: float
    bar: tuple[float, float] | None

    @property
    def holds(self) -> bool:
        return self.bar is None or self.bar[0] <= self.ratio <= self.bar[1]

    def __str__(self) -> str:
        return f"{self.ratio:.3f}{'' if self.bar is None else ' ok' if self.holds else ' !!'}"


def main() -> int:
    began = time.monotonic()
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    if not links.available().real:
        print(f"Real links are needed. {links.available()}")
        return 1
    good = all([on_loopback(), on_links()])
    print(f"\n{'all bars hold' if good else 'MISSED a bar'}; {time.monotonic() - began:.0f} s in all")
    return 0 if good else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
