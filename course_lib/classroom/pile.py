"""What one student handed in: folders, notebooks and zip files, as they are found.

All of it is untrusted: no link is followed, nothing outside is read, only regular files are opened, and
everything has a limit.  What can't be used ends in a sentence, never in an exception.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

from course_lib.classroom import zip_file
from course_lib.classroom.student_names import shown
from course_lib.classroom.submission import LARGEST, Filled, NoExercise, Unusable, fill
from course_lib.working_copy import COURSE_ROOT

_MOST_ENTRIES = 5000  # files and folders of one student
_MOST_NOTEBOOKS, _MOST_BYTES = 300, 200 << 20  # of one student, those in zip files included
_LINK = "It is a link, which is not followed. Hand in the notebook itself."


@dataclass(frozen=True)
class Notebook:
    """A notebook with answers to an exercise: where it was, as it is shown, and its name."""

    file: str
    name: str
    filled: Filled


@dataclass(frozen=True)
class Refused:
    """What can't be used, and why."""

    file: str
    name: str
    why: str

    @property
    def remark(self) -> str:
        return f"{self.file}: {self.why}"

    def is_named_as(self, exercises: Sequence[str]) -> bool:
        """Whether its name says that it is one of these exercises, such as "00_exchange (1).ipynb"."""
        stem = PurePath(self.name).stem
        rests = [stem.removeprefix(exercise) for exercise in exercises if stem.startswith(exercise)]
        # There is a lesson 01_memory_wall, and an exercise 01_memory.
        return any(not rest[:1].isalnum() and rest[:1] != "_" for rest in rests)


@dataclass
class Pile:
    """One student's notebooks below the class's folder.  ``masters``: the exercises that there are."""

    folder: Path
    masters: Path
    notebooks: list[Notebook] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    _entries: int = 0
    _read: int = 0
    _bytes: int = 0

    def add(self, place: Path) -> None:
        """Take a notebook, a zip file, or all that is in a folder."""
        waiting = [place]
        while waiting:
            place = waiting.pop()
            self._entries += 1
            if self._entries > _MOST_ENTRIES:
                self._refuse(place, f"More than {_MOST_ENTRIES} files: the others were not looked at.")
                return
            try:
                waiting += reversed(self._look_at(place))
            except OSError as error:
                self._refuse(place, f"It can't be read: {error.strerror}.")
            except (_Odd, zip_file.BadZip) as problem:
                self._refuse(place, str(problem))
            except _TooMuch as problem:
                self._refuse(place, str(problem))
                return

    def _look_at(self, place: Path) -> list[Path]:
        """Take what it is, and give back what is in it, if it is a folder."""
        mode = os.lstat(place).st_mode
        if stat.S_ISLNK(mode):
            raise _Odd(_LINK)
        if stat.S_ISDIR(mode):
            return [Path(entry.path) for entry in entries(place)]
        if place.suffix.lower() == ".ipynb":
            self._take(_content(place, LARGEST), self._shown(place), place.name)
        elif place.suffix.lower() == ".zip":
            self._take_zip(place)
        return []

    def _take_zip(self, path: Path) -> None:
        for inside, content in zip_file.notebooks(_content(path, zip_file.LARGEST_ZIP)):
            file = f"{self._shown(path)}: {shown(str(inside))}"
            if content is None:
                self.refused.append(Refused(file, inside.name, _LINK))
            else:
                self._take(content, file, inside.name)

    def _take(self, content: bytes, file: str, name: str) -> None:
        self._read += 1
        self._bytes += len(content)
        if self._read > _MOST_NOTEBOOKS or self._bytes > _MOST_BYTES:
            most = f"{_MOST_NOTEBOOKS} notebooks or {_MOST_BYTES >> 20} MB"
            raise _TooMuch(f"More than {most}: the others were not read.")
        try:
            self.notebooks.append(Notebook(file, name, fill(content, name, self.masters)))
        except NoExercise as problem:
            if name not in _lessons():
                self.refused.append(Refused(file, name, str(problem)))
        except Unusable as problem:
            self.refused.append(Refused(file, name, str(problem)))

    def _refuse(self, place: Path, why: str) -> None:
        self.refused.append(Refused(self._shown(place), place.name, why))

    def _shown(self, place: Path) -> str:
        return shown(str(place.relative_to(self.folder)))


class _Odd(Exception):
    """A file that is not taken; str() says why."""


class _TooMuch(Exception):
    """Nothing more is taken from a student; str() says why."""


def entries(folder: Path) -> list[os.DirEntry]:
    """What is in a folder, by name, but hidden files and folders, such as JupyterLab's checkpoints."""
    with os.scandir(folder) as found:
        seen = [entry for entry in found if not entry.name.startswith(".") and entry.name != "__MACOSX"]
    return sorted(seen, key=lambda entry: entry.name)


def _content(path: Path, largest: int) -> bytes:
    """What is in a regular file; no more of it than shows that it is too large.  Raises _Odd for another."""
    # A pipe would wait for a writer, and a link may have come here since we looked.
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _Odd("It is no regular file. Hand in the notebook itself.")
        return file.read(largest + 1)


@cache
def _lessons() -> frozenset[str]:
    """Lessons are handed in along with the exercises, in a working copy."""
    return frozenset(path.name for path in (COURSE_ROOT / "notebooks").glob("*.ipynb"))
