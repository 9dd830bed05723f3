"""``course grade FOLDER --csv FILE``: the marks of a class.

Learners' code runs in jails, and their marks are made here (``marking``).  Each student's mark is kept beside
the CSV file as soon as it is there; a second run takes what has not changed from there.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from course_lib.classroom import grade_tables
from course_lib.classroom.class_marking import Marked, Plan, Stopped, mark_class
from course_lib.classroom.mark_store import MarkStore, digest_of_course
from course_lib.classroom.marks import StudentMark
from course_lib.classroom.roster import HandedIn, read_class
from course_lib.classroom.student_names import shortened
from course_lib.classroom.submission import MASTERS, exercises
from course_lib.machine import usable_cores
from course_lib.working_copy import write_atomically


class CannotMark(Exception):
    """Nothing can be marked as asked; str() says why and what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``course grade``."""
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="in it a folder, a notebook or a zip file per student")
    add("--csv", type=Path, required=True, metavar="FILE", help="points, a line per student")
    add("--platform", choices=grade_tables.PLATFORMS, default="plain", help="whose columns the CSV file has")
    add("--details", type=Path, metavar="FILE", help="also write a CSV file with every case")
    add("--json", type=Path, metavar="FILE", help="also write all that is known, as JSON")
    add("--reports", type=Path, metavar="FOLDER", help="also write a page per student, and one of the class")
    add("--exercises", metavar="00,03", help="only exercises with these numbers")
    add("--jobs", type=int, metavar="N", help="students at a time (default: as root one per core, else 1)")
    add("--seed", metavar="TEXT", help="inputs are drawn from it (default: a secret, kept with the marks)")
    add("--again", action="store_true", help="mark everybody anew")
    add("--no-jail", action="store_true", help="where no jail is to be had: learners' code gets your rights")


def main(arguments: argparse.Namespace) -> int:
    """Mark a class and write what was asked for; 0 when everybody was marked, whatever their points."""
    try:
        students, others = read_class(arguments.folder, _outputs(arguments))
        _refuse_bad_outputs(arguments)
        plan, jobs = _plan(arguments)
    except (ValueError, CannotMark) as problem:
        print(problem)
        return 1
    try:
        marked = _mark(students, plan, jobs)
    except Stopped as stopped:
        print(f"{stopped} What is marked is kept: the same command goes on from there.")
        return 1
    _write([one.mark for one in marked], arguments)
    return _say(marked, others, arguments)


def _outputs(arguments: argparse.Namespace) -> list[Path]:
    given = (arguments.csv, arguments.details, arguments.json, arguments.reports)
    return [path for path in given if path is not None]


def _refuse_bad_outputs(arguments: argparse.Namespace) -> None:
    """Before an hour of marking, not after it."""
    for path in _outputs(arguments):
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.absolute().parent}")
        if path != arguments.reports and path.is_dir():
            raise ValueError(f"{path}: expected a file, this is a folder")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise ValueError(f"--jobs {arguments.jobs}: expected 1 or more")


def _plan(arguments: argparse.Namespace) -> tuple[Plan, int]:
    chosen = tuple(_chosen(arguments.exercises))
    is_jailed = not arguments.no_jail
    store = MarkStore(arguments.csv.with_name(f".{arguments.csv.name}.marks"))
    arguments.seed = arguments.seed or store.seed()
    make_marker, most_jobs = markers(arguments.seed, is_jailed)
    if is_jailed:
        _refuse_what_would_be_seen((MASTERS.parent, arguments.folder))
    jobs = arguments.jobs or usable_cores()
    course = digest_of_course(MASTERS, (arguments.seed, str(is_jailed), *chosen))
    return Plan(chosen, MASTERS, course, store, make_marker, arguments.again), min(jobs, most_jobs or jobs)


def _chosen(numbers: str | None) -> Iterator[str]:
    """The exercises' names; raises ValueError for a number that there is not."""
    every = exercises()
    if numbers is None:
        yield from every
        return
    wanted = sorted({f"{number.strip():0>2}" for number in numbers.split(",")})
    for number in wanted:
        found = [name for name in every if name.startswith(f"{number}_")]
        if not found:
            numbers = ", ".join(name[:2] for name in every)
            raise ValueError(f"--exercises: there is no exercise {number}; expected some of {numbers}")
        yield from found


def markers(seed: str, is_jailed: bool):
    """A maker of markers, and how many may be at work at once, None for any number.

    Raises CannotMark where no jail is to be had.
    """
    from course_lib.classroom import jail, student_marker  # imports torch

    refusal = jail.refusal() if is_jailed else None
    if refusal:
        raise CannotMark(
            f"{refusal}\nWith --no-jail learners' code runs with your rights: it can read and change your "
            "files, and the marks. Use it only where all of them are trusted."
        )
    make = functools.partial(student_marker.StudentMarker, seed=seed, is_jailed=is_jailed)
    return make, jail.most_at_once() if is_jailed else None


def _refuse_what_would_be_seen(secrets: Sequence[Path]) -> None:
    """A jail shows Python and the system's files; what lies among them is seen, too."""
    from course_lib.classroom import jail

    for secret in secrets:
        if (shown := jail.shown_with(secret)) is not None:
            raise CannotMark(f"{secret} lies in {shown}, which learners' code can read: put it elsewhere.")


class _Bar:
    """A progress bar that says who is being marked; nothing where nobody looks on."""

    def __init__(self, students: int):
        self._bar = tqdm(total=students, unit=" students", disable=None)
        self._names: list[str] = []

    def begins(self, student: str) -> None:
        self._names.append(student)
        self._show()

    def ends(self, student: str, marked: Marked) -> None:
        self._names.remove(student)
        self._bar.update()
        self._show()

    def close(self) -> None:
        self._bar.close()

    def _show(self) -> None:
        self._bar.set_postfix_str(shortened(", ".join(self._names), 40))


def _mark(students: Sequence[HandedIn], plan: Plan, jobs: int) -> list[Marked]:
    with contextlib.closing(_Bar(len(students))) as bar:
        return mark_class(students, plan, jobs, bar)


def _write(marks: list[StudentMark], arguments: argparse.Namespace) -> None:
    _write_text(arguments.csv, grade_tables.grades(marks, arguments.platform))
    if arguments.details:
        _write_text(arguments.details, grade_tables.details(marks))
    if arguments.json:
        _write_text(arguments.json, grade_tables.as_json(marks, seed=arguments.seed))
    if arguments.reports:
        from course_lib.classroom import grade_reports  # imports jinja2

        arguments.reports.mkdir(exist_ok=True)
        for name, page in grade_reports.pages(marks).items():
            _write_text(arguments.reports / name, page)


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, text.encode())


def _say(marked: list[Marked], others: list[str], arguments: argparse.Namespace) -> int:
    """What the tables do not say; returns the exit status."""
    problems = {one.mark.student: one.problem for one in marked if one.problem}
    print(f"{len(marked)} students: {', '.join(map(str, _outputs(arguments)))}")
    if others:
        print(f"Not looked at, since they are no notebooks: {shortened(', '.join(others), 300)}")
    for student, problem in problems.items():
        print(f"{student} was not marked: {problem}")
    if problems:
        print("The same command tries these again, and takes the others' marks as they are.")
    return 1 if problems else 0
