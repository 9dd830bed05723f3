"""The map of the course stands in the README and in lesson 00: both must say the same, and add up."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| \**(0\d [^|*]+?)\** \| ([^|]+?) \| (\d+) \| (\d+) \|", re.MULTILINE)


def rows(text):
    """(lesson, question, minutes, minutes of the core path)"""
    return [(lesson, asks, int(minutes), int(core)) for lesson, asks, minutes, core in ROW.findall(text)]


@pytest.fixture
def cells():
    return {cell.id: cell.source for cell in nbformat.read(ROOT / "notebooks/00_start_here.ipynb", 4).cells}


def test_readme_and_lesson_00_agree(cells):
    assert rows((ROOT / "README.md").read_text(encoding="utf-8")) == rows(cells["map"])
    assert len(rows(cells["map"])) == 9


def test_the_minutes_add_up_to_the_hours_that_are_said(cells):
    hours, core_hours = re.search(r"about (\d+) hours .+ about (\d+)\.", cells["map"], re.DOTALL).groups()
    minutes, core = (sum(row[column] for row in rows(cells["map"])) for column in (2, 3))
    assert round(minutes / 60) == int(hours)
    assert round(core / 60) == int(core_hours)


def test_the_first_row_is_this_lesson_with_its_exercise(cells):
    lesson, exercise = re.search(r"(\d+) minutes, and (\d+) for the exercise", cells["objectives"]).groups()
    side_track = re.search(r"\*\*Side track, (\d+) minutes\.\*\*", cells["gpu-why"])[1]
    _, _, minutes, core = rows(cells["map"])[0]
    assert minutes == int(lesson) + int(exercise)
    assert core == minutes - int(side_track)
