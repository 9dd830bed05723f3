"""Pages for reading: one per student, with hints and without solutions, and one of the class.

A student's page is made from their mark and from the exercises' masters, which hold no solutions.  What a
check expects in a secret case is in neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from course_lib.classroom import exercise_text, submission
from course_lib.classroom.exercise_text import ExerciseText
from course_lib.classroom.grade_tables import points
from course_lib.classroom.marks import (
    CRASH,
    ERROR,
    HANG,
    MISSING,
    PASS,
    TAMPERED,
    WRONG,
    ExerciseMark,
    PartMark,
    StudentMark,
)
from course_lib.classroom.student_names import file_stem
from course_lib.palette import COLORS, ink_on

CLASS_PAGE = "class.html"
_WORDS = {
    PASS: "right", WRONG: "not right", ERROR: "raised an error", HANG: "did not end", CRASH: "crashed",
    MISSING: "not begun", TAMPERED: "changed or unusable",
}  # fmt: skip
_MOST_MISTAKES = 8  # of a part


def pages(marks: Sequence[StudentMark]) -> dict[str, str]:
    """All pages by the name of their file, the same for the same marks."""
    names = [exercise.exercise for exercise in marks[0].exercises]
    texts = {name: exercise_text.read(submission.master(name)) for name in names}
    students = {page_of(mark.student): _student_page(mark, texts) for mark in marks}
    return students | {CLASS_PAGE: _class_page(marks, texts)}


def page_of(student: str) -> str:
    """The name of a student's page."""
    return f"{file_stem(student)}.html"


def _student_page(mark: StudentMark, texts: dict[str, ExerciseText]) -> str:
    exercises = [(exercise, texts[exercise.exercise]) for exercise in mark.exercises]
    return _environment().get_template("student.html").render(mark=mark, exercises=exercises)


def _class_page(marks: Sequence[StudentMark], texts: dict[str, ExerciseText]) -> str:
    heads = [
        {"number": each.exercise[:2], "title": texts[each.exercise].title, "most": each.most_points}
        for each in marks[0].exercises
    ]
    return _environment().get_template(CLASS_PAGE).render(
        marks=marks, heads=heads, places=_places(marks, texts), mistakes=_mistakes(marks, texts)
    )  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    environment.globals |= {
        "colors": COLORS, "points": points, "page_of": page_of, "share_cell": _share_cell,
        "sign": lambda status: "✓" if status == PASS else "–" if status == MISSING else "✗",
        "words": _WORDS.__getitem__, "said_of_all": _said_of_all,
    }  # fmt: skip
    return environment


def _said_of_all(exercise: ExerciseMark) -> PartMark | None:
    """Any of the parts, if the same is said of all: nothing was handed in, or a file can't be used."""
    first = exercise.parts[0]
    same = all((part.status, part.message) == (first.status, first.message) for part in exercise.parts)
    return first if same and not first.cases and first.status != PASS else None


def _share_cell(exercise: ExerciseMark) -> Markup:
    """A cell of a table: points, on a color that says how much of all they are."""
    share = exercise.points / exercise.most_points if exercise.most_points else 0.0
    color = _mixed(COLORS["weights"], share)
    text = points(exercise.points) if _is_begun(exercise) else "–"
    failed = CRASH if not exercise.file else None  # marking itself
    is_tampered = any(part.status in (TAMPERED, failed) for part in exercise.parts)
    odd = is_tampered or exercise.remarks or exercise.to_read
    return Markup('<td class="share" style="background:{};color:{}">{}{}</td>').format(
        color, ink_on(color), text, " !" if odd else ""
    )


def _mixed(color: str, share: float) -> str:
    """White for 0, the color for 1.  Darkness alone tells, so it can be read without seeing colors."""
    channels = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (channel - 255) * share):02X}" for channel in channels)


def _is_begun(exercise: ExerciseMark) -> bool:
    return bool(exercise.file) and any(part.status != MISSING for part in exercise.parts)


def _places(marks: Sequence[StudentMark], texts: dict[str, ExerciseText]) -> list[tuple[str, list[str]]]:
    """By exercise, the students for whom it is the last one begun; at the end those who have begun none."""
    found: dict[str, list[str]] = {name: [] for name in [*texts, ""]}
    for mark in marks:
        begun = [exercise.exercise for exercise in mark.exercises if _is_begun(exercise)]
        found[begun[-1] if begun else ""].append(mark.student)
    return [(texts[name].title if name else "none yet", students) for name, students in found.items()]


def _mistakes(
    marks: Sequence[StudentMark], texts: dict[str, ExerciseText]
) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """By part, its most frequent mistakes and who made them.  A part that was not begun is none."""
    found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for mark in marks:
        for exercise in mark.exercises:
            for part in exercise.parts:
                if part.status not in (PASS, MISSING):
                    name = part.mistake or _WORDS[part.status].capitalize() + "."
                    found[exercise.exercise, part.name][name].append(mark.student)
    return [
        (f"{texts[exercise].title}: {texts[exercise].parts[name].title}", _most_frequent(of_part))
        for (exercise, name), of_part in sorted(found.items(), key=lambda item: _order(item[0], texts))
    ]


def _most_frequent(mistakes: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(mistakes.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_MISTAKES]


def _order(part: tuple[str, str], texts: dict[str, ExerciseText]) -> tuple[int, int]:
    exercise, name = part
    return list(texts).index(exercise), list(texts[exercise].parts).index(name)
