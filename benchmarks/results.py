"""One table of the course's ratios on this machine, in under ten minutes: ``make bench``.

    python benchmarks/results.py             # print the table
    python benchmarks/results.py --write     # put it into benchmarks/RESULTS.md, too

Of each topic, a part of what the benchmark of that name measures: these say how, and measure more.  What to
conclude stands in RESULTS.md beside the table, and is written by hand.  The exit status is 1 if a bar is
missed.  Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import all_reduce  # noqa: E402 - the benchmarks beside this one
import certainty  # noqa: E402
import checks  # noqa: E402
import explorers  # noqa: E402
import noise_meter  # noqa: E402
import overlap  # noqa: E402
import overlap_prediction  # noqa: E402
import ranks_run  # noqa: E402
import utilization  # noqa: E402

from course_lib import links, measurements  # noqa: E402
from course_lib.all_reduce_timing import TORCH  # noqa: E402
from course_lib.utilization import MOST_UNEXPLAINED  # noqa: E402

RESULTS = Path(__file__).with_name("RESULTS.md")
TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end of table -->)", re.DOTALL)
MIB = 2**20


class Row(NamedTuple):
    """``holds``: None where there is no bar."""

    what: str
    measured: str
    bar: str = ""
    holds: bool | None = None

    @classmethod
    def at_most(cls, what: str, value: float, most: float | None, form: str = "{:.2f}") -> Row:
        """``most``: None for no bar."""
        if most is None:
            return cls(what, form.format(value))
        return cls(what, form.format(value), f"at most {form.format(most)}", value <= most)


def launch() -> Iterator[Row]:
    for what, value, bar, holds in ranks_run.rows():
        yield Row(what, value, bar, holds if bar else None)


def ring() -> Iterator[Row]:
    found = all_reduce.medians(all_reduce.FAST, 64 * MIB, 4, None, all_reduce.REPEATS_ON_LOOPBACK)
    yield Row.at_most("ring / torch's own, 4 ranks, 64 MiB, loopback", found["ring"] / found[TORCH], 1)
    for count in (2, 4):
        found = all_reduce.medians(all_reduce.ALL, 8 * MIB, count, all_reduce.SLOW, all_reduce.REPEATS)
        for name, ratio in all_reduce.ratios(found, 8 * MIB, count).items():
            what = f"{name}, {count} ranks, 8 MiB, {all_reduce.SLOW.label}"
            if name in all_reduce.BAR:
                least, most = all_reduce.BAR[name]
                yield Row(what, f"{ratio:.2f}", f"{least:.2f} to {most:.2f}", least <= ratio <= most)
            else:
                yield Row(what, f"{ratio:.2f}")


def overlapping() -> Iterator[Row]:
    for count, on in ((2, None), (4, None), (2, overlap.SLOW), (4, overlap.SLOW)):
        steps = overlap.measure(count, on, 8)
        for name in (overlap.SAME, overlap.RING):
            ratios, most = steps.ratios(name), overlap.MOST if overlap.has_bar(name, on) else None
            what = f"step / DDP's: {name}, {count} ranks, {on.label if on else 'loopback'}"
            row = Row.at_most(what, statistics.median(ratios), most)
            yield row._replace(measured=f"{row.measured} ± {certainty.uncertainty(ratios):.2f}")
    found = overlap.hidden(2, overlap.SLOW, overlap.measure(2, overlap.SLOW, 24))
    least = overlap.HIDDEN if found.fits else None
    yield Row("communication hidden, but for the last bucket's, 2 ranks", f"{found.share:.0%}",
              f"at least {least:.0%}" if least else "", found.share >= least if least else None)  # fmt: skip


def predicting() -> Iterator[Row]:
    for result in overlap_prediction.measured("400mbit", 2, 1):
        ratio, error = statistics.median(result.ratios), certainty.uncertainty(result.ratios)
        yield Row(f"predicted / measured step, {result.name}, buckets of {result.bucket_mb:g} MiB",
                  f"{ratio:.2f} ± {error:.2f}", f"1 ± {overlap_prediction.MOST:.2f}",
                  overlap_prediction.judged(result.ratios) == certainty.OK)  # fmt: skip
    took, most = overlap_prediction.milliseconds_of_simulating(), overlap_prediction.MOST_MS
    yield Row.at_most("simulating a step of 4,096 ranks with 200 buckets", took, most, "{:.1f} ms")


def explaining() -> Iterator[Row]:
    share = abs(statistics.median(utilization.unexplained(overlap=True)))
    yield Row.at_most("waterfall: unexplained share of a step", share, MOST_UNEXPLAINED, "{:.1%}")


def meter() -> Iterator[Row]:
    share = noise_meter.added_share(2, noise_meter.HELD)
    yield Row.at_most("noise scale: added to a step, 2 ranks", share, noise_meter.MOST, "{:.1%}")


def sliders() -> Iterator[Row]:
    waits = explorers.in_the_browser(explorers.EXPLORER)
    what = "slider to picture in JupyterLab, 95th percentile"
    yield Row.at_most(what, waits.p95, explorers.BAR, "{:.0f} ms")


def checking() -> Iterator[Row]:
    """The longest check, and each other that misses the bar."""
    found = sorted(checks.measure(times=1), key=lambda each: -each.seconds)
    for each in [found[0], *(each for each in found[1:] if each.verdict != "ok")]:
        what = f"check of a right answer, {each.exercise}: {each.name}"
        row = Row.at_most(what, each.seconds, checks.MOST, "{:.2f} s")
        yield row._replace(holds=each.verdict == "ok")
    middle = statistics.median(each.seconds for each in found)
    yield Row(f"the median of {len(found)} checks", f"{middle:.2f} s")


TOPICS: dict[str, Callable[[], Iterator[Row]]] = {
    "Starting ranks": launch,
    "The ring": ring,
    "Overlap": overlapping,
    "Predictions": predicting,
    "Utilization": explaining,
    "Noise scale": meter,
    "Explorers": sliders,
    "Checks": checking,
}


def as_table(found: dict[str, list[Row]], seconds: float) -> str:
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    lines = [f"{measurements.machine()}; {when}; {seconds / 60:.0f} minutes in all.", "",
             "| | | Measured | Bar | |", "|---|---|---|---|---|"]  # fmt: skip
    for topic, rows in found.items():
        for number, row in enumerate(rows):
            mark = {None: "", True: "ok", False: "**missed**"}[row.holds]
            lines.append(f"| {'' if number else topic} | {row.what} | {row.measured} | {row.bar} | {mark} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md, too")
    parser.add_argument("--topics", metavar="A,B", help=f"some of: {', '.join(TOPICS)}")
    arguments = parser.parse_args()
    wanted = arguments.topics.split(",") if arguments.topics else list(TOPICS)
    if not links.available().real:
        print(f"Real links are needed. {links.available()}")
        return 1
    print(f"load at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)
    began = time.monotonic()
    found = {}
    for topic in wanted:
        print(f"{time.monotonic() - began:4.0f} s  {topic}", file=sys.stderr, flush=True)
        with contextlib.redirect_stdout(sys.stderr):  # what a benchmark says on its way
            found[topic] = list(TOPICS[topic]())
    table = as_table(found, time.monotonic() - began)
    print(table)
    if arguments.write:
        RESULTS.write_text(TABLE.sub(lambda _: table, RESULTS.read_text(encoding="utf-8")), encoding="utf-8")
    return int(any(row.holds is False for rows in found.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
