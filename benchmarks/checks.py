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
from collections.abc import Callable

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exercises", metavar="00,03")
    wanted = parser.parse_args().exercises
    print(f"{measurements.machine()}, medians of {TIMES}; bar: {MOST:g} s")
    ranks.run(len, 1, [])  # from here on it is warm
    missed = 0
    for exercise in exercises():
        if wanted and exercise[:2] not in wanted.split(","):
            continue
        defined, checks = solved(exercise)
        for name, text in checks.items():
            runs = [timed(lambda text=text, defined=defined: eval(text, defined)) for _ in range(TIMES)]
            seconds, right = statistics.median(run[1] for run in runs), all(run[0] == 1.0 for run in runs)
            judged = "found wrong !!" if not right else "ok" if seconds <= MOST else "!!"
            missed += judged != "ok"
            print(f"  {exercise[:2]} {name:<30} {seconds:6.2f} s {judged}", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
