"""Marks of students that are kept in a folder, so that marking a class can go on where it ended.

``class_marking`` asks it for a mark before it gives a student to a marker, and has it keep what comes back.
Nothing is graded here: the files are ``marks`` as JSON.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from pathlib import Path

import course_lib
from course_lib.classroom.marks import StudentMark, from_plain, to_plain
from course_lib.classroom.student_names import file_stem
from course_lib.working_copy import write_atomically


def digest_of_course(masters: Path, settings: Iterable[str]) -> str:
    """Of all that marks depend on but a student's work: the course's code, its exercises, and settings."""
    digest = hashlib.sha256()
    library = Path(course_lib.__file__).parent
    for path in (*sorted(library.rglob("*.py")), *sorted(masters.glob("*.ipynb"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update(json.dumps([course_lib.__version__, *settings]).encode())
    return digest.hexdigest()


class MarkStore:
    """One file per student in ``folder``.  A file that can't be read is as good as none."""

    def __init__(self, folder: Path):
        self._folder = folder

    def get(self, student: str, key: str) -> StudentMark | None:
        """The student's mark, if it was kept under this key."""
        try:
            kept = json.loads(self._path(student).read_bytes())
            return from_plain(kept["mark"]) if kept["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, student: str, key: str, mark: StudentMark) -> None:
        """Keep the mark in place of the student's last one."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        content = json.dumps({"key": key, "mark": to_plain(mark)}, indent=1)
        write_atomically(self._path(student), content.encode())

    def seed(self) -> str:
        """From which inputs are drawn, the same each time.

        It is a secret: who knew it could draw the inputs of all ranks, and would need no message.
        """
        path = self._folder / "seed"
        if not path.exists():
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            write_atomically(path, secrets.token_hex(16).encode())
        return path.read_text()

    def _path(self, student: str) -> Path:
        return self._folder / f"{file_stem(student)}.json"
