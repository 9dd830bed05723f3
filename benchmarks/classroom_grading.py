"""How long ``course grade`` takes for a class, and whether it gives everybody the marks that they should get.

    python benchmarks/classroom_grading.py                 30 students, nine exercises each
    python benchmarks/classroom_grading.py --students 4

Each student hands in all exercises.  Of each exercise a student has all parts right (half of them), one part
by a stored wrong answer (a third), or nothing but what was given out.  Who has what is drawn from a seed.
Exit status 1 if it takes more than 25 minutes for 30 students, which is meant for two cores, if a right
answer lost points, or if a wrong one got all.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from course_lib import measurements
from course_lib.classroom.submission import check_cells, master
from course_lib.working_copy import COURSE_ROOT

MOST_MINUTES = 25
RIGHT, ONE_WRONG = 0.5, 0.33  # of exercises; the rest is untouched
SOLUTIONS = sorted((COURSE_ROOT / "exercises" / "solutions").glob("*.ipynb"))


def hand_in(folder: Path, random: Random) -> dict[str, str]:
    """Write a student's exercises; what each of them is: right, untouched, or the name of a wrong answer."""
    folder.mkdir()
    handed_in = {}
    for solution in SOLUTIONS:
        drawn = random.random()
        if drawn > RIGHT + ONE_WRONG:
            handed_in[solution.stem] = "untouched"
            (folder / solution.name).write_bytes((COURSE_ROOT / "exercises" / solution.name).read_bytes())
            continue
        notebook = json.loads(solution.read_text())
        handed_in[solution.stem] = "right" if drawn < RIGHT else _spoil(notebook, solution.stem[:2], random)
        (folder / solution.name).write_text(json.dumps(notebook))
    return handed_in


def _spoil(notebook: dict, number: str, random: Random) -> str:
    """Put a stored wrong answer into a notebook, and return its name."""
    stored = COURSE_ROOT / "tests" / "wrong_answers" / f"exercise_{number}"
    path = random.choice(sorted(stored.glob("*.py")))
    text = path.read_text()
    part = text.partition('PART = "')[2].partition('"')[0]
    checks = importlib.import_module(f"course_lib.checks.exercise_{number}")
    function = getattr(checks, part.upper()).example.partition("(")[0]
    answers = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    cell = next(cell for cell in answers if f"def {function}(" in "".join(cell["source"]))
    cell["source"] = text
    return path.stem


def faults(csv_file: Path, handed_in: dict[str, dict[str, str]]) -> list[str]:
    """Marks that are not as they should be."""
    found = []
    parts_of = {solution.stem: len(check_cells(master(solution.stem))) for solution in SOLUTIONS}
    for row in csv.DictReader(csv_file.open()):
        for exercise, what in handed_in[row["student"]].items():
            points, parts = float(row[exercise]), parts_of[exercise]
            expected = {"right": points == parts, "untouched": points == 0}
            if not expected.get(what, points < parts):
                found.append(f"{row['student']}, {exercise}: {what} got {points:g} of {parts} points")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=30)
    arguments = parser.parse_args()
    random = Random("a class")
    with tempfile.TemporaryDirectory(prefix="course-grading-") as name:
        folder = Path(name)
        (folder / "class").mkdir()
        handed_in = {
            f"student-{number:02}": hand_in(folder / "class" / f"student-{number:02}", random)
            for number in range(arguments.students)
        }
        grades = folder / "grades.csv"
        command = [sys.executable, "-m", "course_lib", "grade", str(folder / "class"), "--csv", str(grades)]
        command += ["--details", str(folder / "details.csv"), "--reports", str(folder / "reports")]
        began = time.monotonic()
        status = subprocess.run(command, cwd=folder).returncode
        minutes = (time.monotonic() - began) / 60
        wrong = faults(grades, handed_in) if status == 0 else ["course grade failed"]
    each = 60 * minutes / arguments.students
    print(f"{measurements.machine()}: {arguments.students} students, {len(SOLUTIONS)} exercises each: "
          f"{minutes:.1f} minutes, {each:.0f} s a student (bar: {MOST_MINUTES} minutes for 30)")
    for line in wrong:
        print(f"!! {line}")
    return int(bool(wrong) or minutes > MOST_MINUTES * max(1, arguments.students / 30))


if __name__ == "__main__":
    sys.exit(main())
