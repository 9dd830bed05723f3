"""Has each stored right answer checked again and again, on a machine that is kept busy: none may ever fail.

    python -m tools.repeat_right_answers                    50 times each, beside two loops that do nothing
    python -m tools.repeat_right_answers 03 --minutes 10    of exercise 03, as often as the time allows

Those that pass messages come first in each round, since formulas give the same each time.  Exit status 0 only
if all that was run has passed; what was not run is said.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.exercises import answers

TIMES = 50


class Check(NamedTuple):
    """One part of a stored answer."""

    path: Path
    part: str

    @property
    def exercise(self) -> str:
        return self.path.parent.name

    def __str__(self) -> str:
        return f"{self.exercise} {self.path.stem:22} {self.part}"


def checks(numbers: list[str], messages_only: bool = False) -> list[Check]:
    """All parts of all right answers, those with messages first."""
    found = []
    for number in numbers:
        parts = answers.parts(f"exercise_{number}")
        for path in answers.stored("right", f"exercise_{number}"):
            found += [(part.one_process, Check(path, name)) for name, part in parts.items()]
    return [
        check for alone, check in sorted(found, key=lambda each: each[0]) if not (alone and messages_only)
    ]


def passes(check: Check) -> tuple[bool, str]:
    """Whether it earns the full share; and what was printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        share = answers.check(check.exercise, check.part, answers.load(check.path))
    return share == 1.0, printed.getvalue()


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """As many processes that only count."""
    started = [multiprocessing.get_context("spawn").Process(target=_count, daemon=True) for _ in range(loops)]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.join()


def _count() -> None:
    """Until it is ended, or whoever started it is gone."""
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive():
        sum(range(1_000_000))


def repeat(todo: list[Check], times: int, minutes: float = math.inf) -> tuple[Counter[Check], Counter[Check]]:
    """How often each was run, and how often it failed; in rounds, until the time is over."""
    ran: Counter[Check] = Counter()
    failed: Counter[Check] = Counter()
    end = time.monotonic() + 60 * minutes
    for _ in range(times):
        for check in todo:
            if time.monotonic() > end:
                return ran, failed
            right, printed = passes(check)
            ran[check] += 1
            if not right:
                failed[check] += 1
                print(f"FAILED {check}\n{printed}", flush=True)
    return ran, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exercises", nargs="*", help="numbers, such as 03; all by default")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--busy", type=int, default=2, help="loops beside")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then what is left is left out")
    parser.add_argument("--messages", action="store_true", help="only parts that pass messages")
    arguments = parser.parse_args()
    todo = checks(arguments.exercises or [f"{number:02}" for number in range(9)], arguments.messages)
    with busy(arguments.busy):
        ran, failed = repeat(todo, arguments.times, arguments.minutes)
    for check in todo:
        print(f"{check}: {ran[check]} times, {failed[check] or 'none'} failed")
    least = min(ran[check] for check in todo)
    print(f"{ran.total():,} runs of {len(todo)} checks, {least} of each at least; {failed.total()} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
