"""Marks of a class as tables: one line per student for a learning platform, and all cases one by one.

Column names follow what the platforms' own importers read.  They have not been tried on a platform:

* Moodle (Grades, Import, CSV file) asks which column is what: map ``Username`` to the user's name there,
  each exercise to a grade item or a new one, and ``Total`` to nothing.  One unknown user stops the import.
* Canvas (Gradebook, Import) finds students by ``SIS Login ID``, else by their full name.  Columns that it
  does not know become new assignments, with the points of the second row; it skips ``Final Points``.
* Blackboard (Gradebook, Upload) finds students by ``Username``.  A column without an ID of Blackboard's
  becomes a new text column that counts nothing until its type is changed, so download the gradebook first,
  and copy the heads of its columns.

So a student's folder or file should have the name with which they log in.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import course_lib
from course_lib.classroom.marks import TAMPERED, CaseMark, PartMark, StudentMark, to_plain, totals

DETAILS = ("student", "exercise", "part", "case", "points", "status", "seconds", "message")
# Spreadsheets take a cell that begins so for a formula, and run it; some the wide forms, too.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


@dataclass(frozen=True)
class Platform:
    """Heads of the columns before and after those of the exercises, and a student's cells below them.

    ``second_row``: what stands before and after the most points, for a platform that wants them.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    student: Callable[[str], tuple[str, ...]]
    second_row: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    quoting: Literal[0, 1, 2, 3] = csv.QUOTE_MINIMAL


PLATFORMS = {
    "plain": Platform(("student",), ("total",), lambda name: (name,)),
    "moodle": Platform(("Username",), ("Total",), lambda name: (name,)),
    "canvas": Platform(
        ("Student", "ID", "SIS User ID", "SIS Login ID", "Section"),
        ("Final Points",),
        lambda name: (name, "", "", name, ""),
        second_row=(("    Points Possible", "", "", "", ""), ("(read only)",)),
    ),
    "blackboard": Platform(("Username",), ("Total",), lambda name: (name,), quoting=csv.QUOTE_ALL),
}


def grades(marks: Sequence[StudentMark], platform: str = "plain") -> str:
    """A CSV table with a line for each student: points of each exercise, and of all.

    Raises ValueError for an unknown platform.
    """
    if platform not in PLATFORMS:
        raise ValueError(f"platform={platform!r}: expected one of {', '.join(map(repr, PLATFORMS))}")
    form = PLATFORMS[platform]
    first = marks[0].exercises
    rows = [(*form.before, *(exercise.exercise for exercise in first), *form.after)]
    if form.second_row:
        before, after = form.second_row
        rows.append((*before, *(points(exercise.most_points) for exercise in first), *after))
    for mark in marks:
        cells = (*(points(exercise.points) for exercise in mark.exercises), points(mark.points))
        rows.append((*map(cell, form.student(mark.student)), *cells))
    return _csv(rows, form.quoting)


def details(marks: Iterable[StudentMark]) -> str:
    """A CSV table with a line for each case, and for all that has none."""
    return _csv([DETAILS, *(row for mark in marks for row in _student(mark))])


def as_json(marks: Sequence[StudentMark], **settings: object) -> str:
    """All that is known, with totals, and the settings with which it was marked."""
    students = [to_plain(mark) | totals(mark) for mark in marks]
    for plain, mark in zip(students, marks, strict=True):
        for exercise, exercise_mark in zip(plain["exercises"], mark.exercises, strict=True):
            exercise |= totals(exercise_mark)
    return json.dumps({"course": course_lib.__version__, **settings, "students": students}, indent=1) + "\n"


def points(number: float) -> str:
    """Points as they are shown: shares of a part are thirds and sixths at times."""
    return f"{round(number, 3):g}"


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _student(mark: StudentMark) -> Iterable[Sequence[str]]:
    for remark in mark.remarks:
        yield _row(mark.student, status=TAMPERED, message=remark)
    for exercise in mark.exercises:
        for status, remarks in (("remark", exercise.remarks), ("to read", exercise.to_read)):
            for remark in remarks:
                yield _row(mark.student, exercise.exercise, status=status, message=remark)
        for part in exercise.parts:
            for case in part.cases or (_whole(part),):
                yield _row(
                    mark.student, exercise.exercise, part.name, case.title,
                    points(case.points), case.status, f"{case.seconds:.2f}", case.message,
                )  # fmt: skip


def _whole(part: PartMark) -> CaseMark:
    """A part without cases as one."""
    return CaseMark("", part.points, part.status, part.seconds, part.message)


def _row(
    student: str, exercise: str = "", part: str = "", case: str = "",
    points: str = "", status: str = "", seconds: str = "", message: str = "",
) -> tuple[str, ...]:  # fmt: skip
    texts = (student, exercise, part, case)
    return (*map(cell, texts), points, status, seconds, cell(message))


def _csv(rows: Iterable[Sequence[str]], quoting: Literal[0, 1, 2, 3] = csv.QUOTE_MINIMAL) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=quoting, lineterminator="\r\n").writerows(rows)
    return file.getvalue()
