"""``course solution NN``: shows the solution of an exercise, after asking."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from course_lib.classroom.submission import answer_cells
from course_lib.working_copy import COURSE_ROOT

SOLUTIONS = COURSE_ROOT / "exercises" / "solutions"
_MARKS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[ \t]*\n?", re.MULTILINE)


def find(number: str, folder: Path = SOLUTIONS) -> Path | None:
    """The solution of exercise ``number``, such as 00 or 0; None without one."""
    return next(iter(sorted(folder.glob(f"{number:0>2}_*.ipynb"))), None) if number.isdecimal() else None


def text(path: Path) -> str:
    """The answer cells of a solution, one after the other."""
    cells = answer_cells(json.loads(path.read_bytes()))
    return "\n\n\n".join(_MARKS.sub("", source).strip() for source in cells.values())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``course solution``."""
    parser.add_argument("exercise", metavar="NN", help="the exercise's number, such as 00")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Ask, and show the solution if the answer is yes."""
    path = find(arguments.exercise)
    if path is None:
        print(_why_none(arguments.exercise))
        return 1
    if not arguments.yes and not _has_tried(path.stem):
        print("Then try first: each part has hints, folded below it.")
        return 1
    print(text(path))
    return 0


def _why_none(number: str) -> str:
    if not SOLUTIONS.is_dir():
        return "Solutions are not in this copy of the course: your instructor has them."
    return f"There is no solution of exercise {number} here."


def _has_tried(exercise: str) -> bool:
    try:
        answer = input(f"Exercise {exercise}: have you tried, and do you want to see a solution? y/N ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
