"""Has each stored right answer checked again and again, on a machine that is kept busy: none may ever fail.

    python -m tools.repeat_right_answers                    50 times each, four at once
    python -m tools.repeat_right_answers 03 --minutes 10    of exercise 03, as often as the time allows
    python -m tools.repeat_right_answers --messages         without formulas, which give the same each time

What keeps the machine busy are the other checks.  Exit status 0 only if all that was run has passed; what was
run how often is said.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from tests.exercises import answers

TIMES, AT_ONCE = 50, 4


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
    """All parts of all right answers, or those that pass messages."""
    return [
        Check(path, name)
        for number in numbers
        for path in answers.stored("right", f"exercise_{number}")
        for name, part in answers.parts(f"exercise_{number}").items()
        if not (part.one_process and messages_only)
    ]


def passes(check: Check) -> tuple[bool, str]:
    """Whether it earns the full share; and what was printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        share = answers.check(check.exercise, check.part, answers.load(check.path))
    return share == 1.0, printed.getvalue()


def processes(at_once: int) -> ProcessPoolExecutor:
    """So many processes, which end with this one."""
    return ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def repeat(
    todo: list[Check], times: int, at_once: int, minutes: float = math.inf
) -> tuple[Counter[Check], Counter[Check]]:
    """How often each was run, and how often it failed; after so many minutes no further round begins."""
    ran: Counter[Check] = Counter()
    failed: Counter[Check] = Counter()
    end = time.monotonic() + 60 * minutes
    with processes(at_once) as pool:
        for _ in tqdm(range(times), unit=" rounds", disable=None):
            for check, (right, printed) in zip(todo, pool.map(passes, todo), strict=True):
                ran[check] += 1
                if not right:
                    failed[check] += 1
                    print(f"FAILED {check}\n{printed}", flush=True)
            if time.monotonic() > end:
                break
    return ran, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exercises", nargs="*", help="numbers, such as 03; all by default")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="more than the machine has cores")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then no further round begins")
    parser.add_argument("--messages", action="store_true", help="only parts that pass messages")
    arguments = parser.parse_args()
    todo = checks(arguments.exercises or [f"{number:02}" for number in range(9)], arguments.messages)
    ran, failed = repeat(todo, arguments.times, arguments.at_once, arguments.minutes)
    for check in todo:
        print(f"{check}: {ran[check]} times, {failed[check] or 'none'} failed")
    least = min(ran[check] for check in todo)
    print(f"{ran.total():,} runs of {len(todo)} checks, {least} of each at least; {failed.total()} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
