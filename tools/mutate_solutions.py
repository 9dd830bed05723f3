"""Puts one mistake after another into the exercises' solutions, and counts what the checks refuse.

    python -m tools.mutate_solutions            all exercises (an hour on two cores); a second run goes on
    python -m tools.mutate_solutions 03 05      some of them
    python -m tools.mutate_solutions --again    the survivors once more, after a check was changed
    python -m tools.mutate_solutions --report   write docs/instructor/mutation.md from what is known

Exit status 0 only if all are judged, and at least 98% of those that differ from the solution are refused.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tqdm import tqdm

from course_lib.working_copy import COURSE_ROOT
from tools.mutation import operators, report, results, trial
from tools.mutation.operators import Mutant

ENOUGH = 0.98
_Work = tuple[str, str, Mutant]  # the exercise's number, the answer's cell, and the mutant


def work(numbers: Iterable[str]) -> list[_Work]:
    """All mutants of these exercises."""
    return [
        (number, answer, mutant)
        for number, exercise in trial.exercises().items() if number in numbers
        for answer, source in exercise.answers.items()
        for mutant in operators.mutants(source)
    ]  # fmt: skip


def left(todo: list[_Work], found: list[results.Result], again: bool) -> list[_Work]:
    """Those that are not known yet; with ``again`` those that survived, too."""
    done = {(each.answer, each.key, each.exercise[:2]) for each in found if not (again and each.survived)}
    return [each for each in todo if (each[1], results.key(each[2]), each[0]) not in done]


def known(todo: list[_Work], found: list[results.Result]) -> list[results.Result]:
    """What is known of these, in their order."""
    of = {(each.exercise[:2], each.answer, each.key): each for each in found}
    keys = [(number, answer, results.key(mutant)) for number, answer, mutant in todo]
    return [of[key] for key in keys if key in of]


def refuse_broken_solutions(numbers: Iterable[str]) -> None:
    """A check that refuses the solution would refuse all mutants, too.  Raises ValueError."""
    for number in numbers:
        exercise = trial.exercises()[number]
        for check in exercise.checks:
            if rejected := trial.check(exercise, check, exercise.namespace({})):
                raise ValueError(f"{exercise.name}, {check}: the solution itself is refused ({rejected.how})")


def run(todo: list[_Work], folder: Path, processes: int) -> None:
    """Judge mutants, and keep each result at once.  Ended by Ctrl-C, it goes on where it was next time."""
    context = multiprocessing.get_context("spawn")  # each has a server of ranks of its own
    pool = ProcessPoolExecutor(processes, context)
    try:
        waiting = [pool.submit(results.judge, *each) for each in todo]
        for future in tqdm(as_completed(waiting), total=len(waiting), desc="mutants"):
            results.add(folder, future.result())
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exercises", nargs="*", help="numbers, such as 03; all by default")
    parser.add_argument("--again", action="store_true", help="judge survivors once more")
    parser.add_argument("--report", action="store_true", help="write the report, and judge nothing")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--results", type=Path, default=COURSE_ROOT / ".mutation", help="folder of what is known"
    )
    arguments = parser.parse_args()
    numbers = arguments.exercises or [*trial.exercises()]
    todo = work(numbers)
    if not arguments.report:
        open_ones = left(todo, results.load(arguments.results), arguments.again)
        refuse_broken_solutions({number for number, _, _ in open_ones})
        run(open_ones, arguments.results, arguments.processes)
    found = known(todo, results.load(arguments.results))
    if arguments.report:
        report.REPORT.parent.mkdir(parents=True, exist_ok=True)
        report.REPORT.write_text(report.text(found, len(todo)))
    print(report.summary(found, len(todo)))
    return 0 if report.refused(found) >= ENOUGH and len(found) == len(todo) else 1


if __name__ == "__main__":
    sys.exit(main())
