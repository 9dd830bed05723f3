"""What marking comes to, as plain data: of a student, their exercises, the parts of these, and the cases.

A case of a part is a world size, or for a formula one call.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

PASS, WRONG, ERROR, HANG, CRASH, MISSING, TAMPERED = (
    "pass", "wrong", "error", "hang", "crash", "missing", "tampered"
)  # fmt: skip


@dataclass(frozen=True)
class CaseMark:
    """One case.  ``message``: what was seen, in a line or a few; ``seconds``: how long it ran."""

    title: str
    points: float
    status: str
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class PartMark:
    """One check cell.

    ``message`` is the text that the check prints in a notebook, ``mistake`` the one sentence in it that
    explains most, "" where there is none.  ``status`` is that of the first case that is not right; it is
    ``missing`` for an answer that was not begun, and ``tampered`` for a check cell that was changed: the
    original one has marked the answer, so the points are what it is worth.
    """

    name: str
    points: float
    most_points: float
    status: str
    message: str = ""
    mistake: str = ""
    cases: tuple[CaseMark, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(case.seconds for case in self.cases)


@dataclass(frozen=True)
class ExerciseMark:
    """One exercise: its name, the file that it was marked from ("" for none), and what was odd about it.

    ``to_read``: what a person should look at before the mark is given; not for the student's eyes.
    """

    exercise: str
    file: str
    parts: tuple[PartMark, ...]
    remarks: tuple[str, ...] = ()
    to_read: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        return sum(part.points for part in self.parts)

    @property
    def most_points(self) -> float:
        return sum(part.most_points for part in self.parts)

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)


@dataclass(frozen=True)
class StudentMark:
    """One student.  ``remarks`` are about files that belong to no exercise."""

    student: str
    exercises: tuple[ExerciseMark, ...]
    remarks: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)

    @property
    def most_points(self) -> float:
        return sum(exercise.most_points for exercise in self.exercises)


class HasPoints(Protocol):
    """Whatever has points: a mark, or what ``course check`` finds."""

    @property
    def points(self) -> float: ...

    @property
    def most_points(self) -> float: ...


def totals(mark: HasPoints) -> dict[str, float]:
    """For a JSON file, beside the fields, which have no sums."""
    return {"points": mark.points, "most_points": mark.most_points}


def to_plain(mark: StudentMark) -> dict:
    """For a JSON file."""
    return asdict(mark)


def from_plain(data: dict) -> StudentMark:
    """The opposite of ``to_plain``."""
    return StudentMark(
        data["student"],
        tuple(_exercise(exercise) for exercise in data["exercises"]),
        tuple(data["remarks"]),
    )


def _exercise(data: dict) -> ExerciseMark:
    parts = tuple(
        PartMark(**{**part, "cases": tuple(CaseMark(**case) for case in part["cases"])})
        for part in data["parts"]
    )
    remarks, to_read = tuple(data["remarks"]), tuple(data["to_read"])
    return ExerciseMark(data["exercise"], data["file"], parts, remarks, to_read)
