"""Stored answers to the exercises: files under tests/wrong_answers and tests/right_answers."""

import importlib
import linecache
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from course_lib.checks.part import Part

TESTS = Path(__file__).parent.parent


def stored(kind, exercise):
    """The paths of all ``wrong`` or ``right`` answers to an exercise, such as ``exercise_00``."""
    return sorted((TESTS / f"{kind}_answers" / exercise).glob("*.py"))


def some(paths, every):
    """One of so many answers for every test run, the others for the long one."""
    return [path if index % every == 0 else pytest.param(path, marks=pytest.mark.long)
            for index, path in enumerate(paths)]  # fmt: skip


def load(path):
    """Run an answer as a notebook runs a cell: its functions are not importable in the ranks."""
    text = path.read_text()
    name = f"<{path.name}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return SimpleNamespace(**names)


def checks_of(exercise):
    """The module that checks an exercise."""
    return importlib.import_module(f"course_lib.checks.{exercise}")


def parts(exercise):
    """The parts of an exercise, by the names of the functions that check them."""
    return {name.lower(): part for name, part in vars(checks_of(exercise)).items() if isinstance(part, Part)}


def check(exercise, name, answer, most_ranks=8):
    """Check one part of an answer, on at most so many ranks: eight take longest."""
    module, part = checks_of(exercise), parts(exercise)[name]
    world_sizes = [size for size in part.world_sizes if part.one_process or size <= most_ranks]
    with mock.patch.object(module, name.upper(), replace(part, world_sizes=world_sizes)):
        return getattr(module, name)(getattr(answer, part.example.partition("(")[0]))
