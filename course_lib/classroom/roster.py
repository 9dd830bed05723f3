"""Who handed in what: from a class's folder to each student's work, by exercise.

A student is a folder, a notebook or a zip file in the class's folder; of one name, all of them together.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

from course_lib.classroom import submission
from course_lib.classroom.marks import MISSING, TAMPERED
from course_lib.classroom.pile import Pile, entries
from course_lib.classroom.student_names import shown
from course_lib.classroom.submission import MASTERS, Filled


@dataclass(frozen=True)
class HandedIn:
    """What belongs to one student in the class's folder.  ``name``: as it is shown."""

    name: str
    places: tuple[Path, ...]


@dataclass(frozen=True)
class Work:
    """What a student handed in for one exercise.

    ``filled`` is what to mark, from the notebook ``file``; None where there is nothing, and then ``status``
    (missing or tampered) and ``message`` say why.
    """

    exercise: str
    file: str = ""
    filled: Filled | None = None
    status: str = ""
    message: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Student:
    """One student's work on each exercise.  ``remarks`` are about files that belong to no exercise."""

    name: str
    work: tuple[Work, ...]
    remarks: tuple[str, ...] = ()

    @property
    def to_mark(self) -> tuple[tuple[Filled, str], ...]:
        """What there is to mark, each with the name of its file."""
        return tuple((work.filled, work.file) for work in self.work if work.filled is not None)

    def digest(self) -> str:
        """Of all that marking can see: the same for the same answers, whatever else is in the files."""
        # ASCII, since an answer may hold characters that no encoding can write.
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def read_class(folder: Path, leave_out: Collection[Path] = ()) -> tuple[list[HandedIn], list[str]]:
    """The students of a class, by name, and the names of files that are nobody's.

    ``leave_out`` are files and folders in ``folder`` that were not handed in.  Raises ValueError when
    ``folder`` is not a folder, can't be read, or holds no student.
    """
    places: dict[str, list[Path]] = {}
    others = []
    left_out = {path.absolute() for path in leave_out}
    for entry in _entries_of_class(folder):
        name = _students_name(entry)
        if Path(entry.path).absolute() in left_out:
            continue
        if name is None:
            others.append(shown(entry.name))
        else:
            places.setdefault(shown(name), []).append(Path(entry.path))
    if not places:
        raise ValueError(f"{folder}: expected a folder, a notebook or a zip file for each student")
    return [HandedIn(name, tuple(places[name])) for name in sorted(places)], others


def _entries_of_class(folder: Path) -> list[os.DirEntry]:
    try:
        return entries(folder)
    except OSError as error:
        raise ValueError(f"{folder}: expected a folder: {error.strerror}") from None


def _students_name(entry: os.DirEntry) -> str | None:
    path, is_folder = PurePath(entry.name), entry.is_dir(follow_symlinks=False)
    if path.suffix.lower() in (".ipynb", ".zip") and not is_folder:
        return path.stem
    # A link may have been meant as a folder: it gets a line, too.
    return entry.name if is_folder or entry.is_symlink() else None


def gather(handed_in: HandedIn, exercises: Sequence[str], masters: Path = MASTERS) -> Student:
    """Read a student's notebooks, and find for each exercise the one that counts."""
    pile = Pile(handed_in.places[0].parent, masters)
    for place in handed_in.places:
        pile.add(place)
    every = submission.exercises(masters)
    unassigned = tuple(one.remark for one in pile.refused if not one.is_named_as(every))
    work = tuple(_work(exercise, pile) for exercise in exercises)
    if unassigned and all(one.status == MISSING for one in work):
        # Nobody can say which exercises these were to be.
        work = tuple(Work(each, status=TAMPERED, message=" ".join(unassigned)) for each in exercises)
    return Student(handed_in.name, work, unassigned)


def _work(exercise: str, pile: Pile) -> Work:
    """The notebook of an exercise that counts: the one with its name, or the only one."""
    found = [one for one in pile.notebooks if one.filled.exercise == exercise]
    counting = [one for one in found if one.name == f"{exercise}.ipynb"] or found
    refused = [one for one in pile.refused if one.is_named_as([exercise])]
    remarks = [one.remark for one in refused]
    if not counting and refused:
        return Work(exercise, refused[0].file, None, TAMPERED, " ".join(remarks))
    if not counting:
        return Work(exercise, status=MISSING, message="No notebook of this exercise was handed in.")
    first = counting[0]
    if any(one.filled != first.filled for one in counting):
        files = ", ".join(one.file for one in counting)
        why = f"{len(counting)} different notebooks are of this exercise: {files}. Keep one of them."
        return Work(exercise, first.file, None, TAMPERED, why, tuple(remarks))
    others = [one.file for one in found if one.filled != first.filled]
    remarks += [f"{file}: Not marked, since {first.file} has the exercise's name." for file in others]
    return Work(exercise, first.file, first.filled, remarks=tuple(remarks))
