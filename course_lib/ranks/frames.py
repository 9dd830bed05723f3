"""Which lines are the learner's, and how they are named in reports.

Reports name a line by its number and its text.  Cell numbers and the temporary file names of cells differ
from run to run, so they are left out; files are named without their folder.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from types import FrameType, TracebackType

RANK_START = str(Path(__file__).with_name("rank_process.py"))  # what calls the learner's function
_this_thread = threading.local()
_LONGEST_TEXT = 80  # characters of a line that are shown
_EXERCISE = re.compile(r"<(exercise \d+)\b")  # the file name of an answer cell that `course train` runs
_LIBRARY_FOLDERS = tuple(
    {
        os.path.realpath(folder) + os.sep
        for folder in (
            *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            str(Path(__file__).parent.parent),
        )
    }
)


@dataclass(frozen=True)
class Line:
    """One line of a traceback."""

    file: str
    number: int
    function: str
    text: str

    def __str__(self) -> str:
        text = self.text if len(self.text) <= _LONGEST_TEXT else f"{self.text[:_LONGEST_TEXT]}…"
        return ": ".join(filter(None, (_named(self.file, self.number), text)))


@functools.lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a line of this file is Python's, an installed package's or the course's own."""
    return file.startswith("<frozen ") or os.path.realpath(file).startswith(_LIBRARY_FOLDERS)


def line_at(file: str, number: int, function: str = "") -> Line:
    """The line with its text, as far as the text can be found."""
    return Line(file, number, function, linecache.getline(file, number).strip())


def learners_frame() -> FrameType:
    """The innermost frame of the caller's stack that is the learner's.

    Where none is, the one on whose behalf the caller's thread works; else the innermost one.
    """
    innermost = sys._getframe(1)
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code.co_filename != RANK_START:
        if not is_library(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return getattr(_this_thread, "on_behalf_of", None) or innermost


def is_on_behalf() -> bool:
    """Whether this thread is inside ``on_behalf_of``."""
    return getattr(_this_thread, "on_behalf_of", None) is not None


@contextlib.contextmanager
def on_behalf_of(frame: FrameType) -> Iterator[None]:
    """What this thread does in the block counts as done by the frame of another thread."""
    _this_thread.on_behalf_of = frame
    try:
        yield
    finally:
        _this_thread.on_behalf_of = None


def lines_of(trace: TracebackType | None) -> list[Line]:
    """A traceback's lines, outermost first."""
    return [
        Line(frame.filename, frame.lineno or 0, frame.name, (frame.line or "").strip())
        for frame in traceback.extract_tb(trace)
    ]


def inside_function(lines: list[Line]) -> list[Line]:
    """A stack's lines, innermost first, without those that lead to the learner's function."""
    return list(takewhile(lambda line: line.file != RANK_START, lines))


def folded(lines: list[Line]) -> list[str]:
    """A traceback as text, with runs of library lines folded into one line each.

    Where no line is the learner's, the last one is kept.
    """
    shown = [line for line in lines if not is_library(line.file)] or lines[-1:]
    text: list[str] = []
    for is_shown, run in groupby(lines, key=lambda line: line in shown):
        group = list(run)
        if is_shown:
            text += _without_repeats([f"in {line.function}, {line}" for line in group])
        elif text:  # what starts the learner's function is not worth a line
            text += _fold(len(group))
    return text


def _without_repeats(texts: list[str]) -> list[str]:
    """Equal lines in a row, as in a recursion without end, once and counted."""
    counted = [(text, len(list(group))) for text, group in groupby(texts)]
    return [text if count == 1 else f"{text} ({count} times)" for text, count in counted]


def _fold(hidden: int) -> list[str]:
    return [f"({hidden} {'line' if hidden == 1 else 'lines'} inside libraries)"]


def _named(file: str, number: int) -> str:
    if os.path.exists(file):
        return f"{os.path.basename(file)}, line {number}"
    exercise = _EXERCISE.match(file)
    return f"{exercise[1]}, line {number}" if exercise else f"line {number}"
