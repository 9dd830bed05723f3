"""What slow links cost to make, how exact their rate is, and links paced in software against real ones.

    python benchmarks/links.py

Medians from one run.  The exit status is 1 if a ratio misses its bar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from datetime import UTC, datetime

import torch
import torch.distributed as dist
from ranks_run import median_seconds

from course_lib import links, measurements, ranks
from course_lib.all_reduce_timing import measure
from course_lib.links import Links

MIB = 2**20
REAL, PACED = Links("400mbit", kind="real"), Links("400mbit", kind="paced")
CALLS, REPEATS = 7, 5
NEAR = (0.9, 1.1)


def is_near(ratio: float) -> bool:
    return NEAR[0] <= ratio <= NEAR[1]


def verdict(ratio: float) -> str:
    return "ok" if is_near(ratio) else "MISSED"


def print_setting_up() -> None:
    """A call in which ranks do nothing, without links and with each kind; the network is the difference."""
    ranks.run(dist.get_rank, 2, device="cpu", links=REAL)  # what only a first call does
    print(f"a call that does nothing, median of {CALLS}, in s")
    print(f"{'N':>2} {'no links':>9} {'paced':>9} {'real':>9} {'network':>9}")
    for count in (2, 4, 8, 16):
        none, paced, real = (
            median_seconds(lambda: ranks.run(dist.get_rank, count, device="cpu", links=on), CALLS)  # noqa: B023
            for on in (None, PACED, REAL)
        )
        print(f"{count:2} {none:9.3f} {paced:9.3f} {real:9.3f} {real - none:9.3f}", flush=True)


def one_way(size: int) -> list[float]:
    """Seconds in which rank 1 receives a message from rank 0, its receive being posted first."""
    tensor, seconds = torch.zeros(size // 4), []
    for _ in range(REPEATS):
        receiving = dist.irecv(tensor, 0) if dist.get_rank() else None
        dist.barrier()
        began = time.perf_counter()
        if receiving is None:
            dist.send(tensor, 1)
        else:
            receiving.wait()
        seconds.append(time.perf_counter() - began)
    return seconds


def print_rate() -> bool:
    size, good = 16 * MIB, True
    print(f"\na message of {size // MIB} MiB from rank to rank: its time over bytes / rate; bar {NEAR}")
    for rate in ("100mbit", "400mbit", "1gbit"):
        for kind in ("real", "paced"):
            on = Links(rate, kind=kind)
            ratio = statistics.median(ranks.run(one_way, 2, size, device="cpu", links=on)[1])
            ratio /= size / on.bandwidth
            good &= is_near(ratio)
            print(f"{rate:>8} {kind:<5} {ratio:7.3f}  {verdict(ratio)}", flush=True)
    return good


def print_paced_over_real() -> bool:
    names, good = ("ring", "unchunked-ring", "star"), True
    print(f"\npaced / real, 8 MiB, {REAL.label}; bar {NEAR}")
    for count in (2, 4):
        real, paced = ({name: statistics.median(seconds)
                        for name, seconds in measure(names, 8 * MIB, count, on, REPEATS).items()}
                       for on in (REAL, PACED))  # fmt: skip
        for name in names:
            ratio = paced[name] / real[name]
            good &= is_near(ratio)
            times = f"real {real[name]:.3f} s, paced {paced[name]:.3f} s"
            print(f"N={count} {name:<15} {times}, {ratio:.3f}  {verdict(ratio)}", flush=True)
    return good


def main() -> int:
    began = time.monotonic()
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n{links.available()}\n")
    if not links.available().real:
        return 1
    print_setting_up()
    good = all([print_rate(), print_paced_over_real()])
    print(f"\n{'all bars hold' if good else 'MISSED a bar'}; {time.monotonic() - began:.0f} s in all")
    return 0 if good else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
