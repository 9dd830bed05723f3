"""How long the checks of the exercises take for a right answer: all cases, all world sizes.

    python benchmarks/checks.py                  bar: 2 s, warm, on two cores
    python benchmarks/checks.py --exercises 03

Warm: torch is imported and the process that starts ranks is there, as in a notebook after its first check.
Each check is run three times; the median counts.  Exit status 1 if one takes longer, or finds a solution
wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from course_lib import measurements, ranks
from course_lib.classroom.answers import run_cell
from course_lib.classroom.submission import answer_cells, check_texts, exercises, imports
from course_lib.working_copy import COURSE_ROOT

MOST, TIMES = 2.0, 3


def solved(exercise: str) -> tuple[dict, dict[str, str]]:
    """What the solution's cells define, and the text of each check cell."""
    notebook = json.loads((COURSE_ROOT / "exercises" / "solutions" / f"{exercise}.ipynb").read_bytes())
    defined: dict = {"__name__": "__main__"}
    exec(imports(notebook), defined)
    for name, text in answer_cells(notebook).items():
        run_cell(f"<{name}>", text, defined)
    return defined, check_texts(notebook)


def timed(check: Callable[[], float]) -> tuple[float, float]:
    """Its value and how long it takes."""
    with contextlib.redirect_stdout(io.StringIO()):
        began = time.perf_counter()
        share = check()
        return share, time.perf_counter() - began


class Timed(NamedTuple):
    """A check of the exercise with this number: its median time, and whether it found the solution right."""

    exercise: str
    name: str
    seconds: float
    right: bool

    @property
    def verdict(self) -> str:
        return "found wrong !!" if not self.right else "ok" if self.seconds <= MOST else "!!"


def measure(wanted: Sequence[str] = (), times: int = TIMES) -> Iterator[Timed]:
    """One check after the other, of the exercises with these numbers, of all if there are none."""
    ranks.run(len, 1, [])  # from here on it is warm
    for exercise in exercises():
        if wanted and exercise[:2] not in wanted:
            continue
        defined, checks = solved(exercise)
        for name, text in checks.items():
            runs = [timed(lambda text=text, defined=defined: eval(text, defined)) for _ in range(times)]
            yield Timed(exercise[:2], name, statistics.median(run[1] for run in runs),
                        all(run[0] == 1.0 for run in runs))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exercises", metavar="00,03")
    wanted = (parser.parse_args().exercises or "").split(",")
    print(f"{measurements.machine()}, medians of {TIMES}; bar: {MOST:g} s")
    missed = 0
    for each in measure([number for number in wanted if number]):
        missed += each.verdict != "ok"
        print(f"  {each.exercise} {each.name:<30} {each.seconds:6.2f} s {each.verdict}", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
