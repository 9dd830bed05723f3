"""Stored answers to the exercises: files under tests/wrong_answers and tests/right_answers."""

import linecache
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parent.parent


def stored(kind, exercise):
    """The paths of all ``wrong`` or ``right`` answers to an exercise, such as ``exercise_00``."""
    return sorted((TESTS / f"{kind}_answers" / exercise).glob("*.py"))


def some(paths):
    """Every fourth of many answers for every test run, the others for the long one."""
    return [path if index % 4 == 0 else pytest.param(path, marks=pytest.mark.long)
            for index, path in enumerate(paths)]  # fmt: skip


def load(path):
    """Run an answer as a notebook runs a cell: its functions are not importable in the ranks."""
    text = path.read_text()
    name = f"<{path.name}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return SimpleNamespace(**names)
