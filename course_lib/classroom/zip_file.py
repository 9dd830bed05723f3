"""The notebooks in a learner's zip file.

A zip file says itself how large its members are and where they belong, so none of that is believed: members
are read into memory, up to a limit, and nothing is unpacked to a disk.
"""

from __future__ import annotations

import contextlib
import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath

from course_lib.classroom.submission import LARGEST

LARGEST_ZIP = 50 << 20  # bytes; a million members at most, which can be listed
_MOST_FILES, _MOST_NOTEBOOKS = 5000, 200
_MOST_BYTES = 200 << 20  # of all notebooks together
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of the others some take gigabytes to begin
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError)


class BadZip(Exception):
    """Nothing is taken from a zip file; str() says why and what to do."""


def notebooks(content: bytes) -> Iterator[tuple[PurePosixPath, bytes | None]]:
    """Path and content of each notebook in a zip file but hidden ones; the content of a link is None.

    Of a notebook that is too large there is no more than shows it.  Raises BadZip, for a part that is broken
    when it is reached.
    """
    if len(content) > LARGEST_ZIP:
        raise BadZip(f"It is larger than {LARGEST_ZIP >> 20} MB. Hand in the exercises only.")
    with _broken_is_bad():
        archive = zipfile.ZipFile(io.BytesIO(content))
    for member in _wanted(archive.infolist()):
        if stat.S_ISLNK(member.external_attr >> 16):
            yield _path(member), None
            continue
        with _broken_is_bad(), archive.open(member) as file:
            read = file.read(LARGEST + 1)
        yield _path(member), read


@contextlib.contextmanager
def _broken_is_bad() -> Iterator[None]:
    try:
        yield
    except _BROKEN:
        raise BadZip("It is no zip file, or a broken one. Zip the notebooks anew.") from None


def _path(member: zipfile.ZipInfo) -> PurePosixPath:
    """Some programs for Windows write backslashes."""
    return PurePosixPath(member.filename.replace("\\", "/"))


def _is_notebook(member: zipfile.ZipInfo) -> bool:
    path = _path(member)
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
    return path.suffix.lower() == ".ipynb" and not member.is_dir() and not hidden


def _wanted(members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The notebooks among the members; raises BadZip for what no zip file of a learner's has."""
    if len(members) > _MOST_FILES:
        raise BadZip(f"It holds more than {_MOST_FILES} files. Hand in the exercises only.")
    if any(_leads_out(_path(member)) for member in members):
        raise BadZip("It holds a path that leads out of it. Zip the notebooks anew.")
    wanted = [member for member in members if _is_notebook(member)]
    if any(member.flag_bits & _ENCRYPTED for member in wanted):
        raise BadZip("It asks for a password. Zip the notebooks without one.")
    if any(member.compress_type not in _METHODS for member in wanted):
        raise BadZip("It is packed in a way that is not used here. Zip the notebooks anew.")
    if len(wanted) > _MOST_NOTEBOOKS:
        raise BadZip(f"It holds more than {_MOST_NOTEBOOKS} notebooks. Hand in the exercises only.")
    if sum(min(member.file_size, LARGEST + 1) for member in wanted) > _MOST_BYTES:
        raise BadZip(f"Unpacked it is larger than {_MOST_BYTES >> 20} MB. Clear the notebooks' outputs.")
    return wanted


def _leads_out(path: PurePosixPath) -> bool:
    return path.is_absolute() or ".." in path.parts or bool(PureWindowsPath(path).drive)
