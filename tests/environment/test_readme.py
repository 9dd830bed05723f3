"""The README promises nothing that is not there."""

import json
import re

from course_lib import cli
from tests.environment.repository import ROOT
from tools import readme_pictures

README = (ROOT / "README.md").read_text()


def lessons(text: str) -> list[tuple[str, ...]]:
    """Rows of a table of lessons: number and title, question, minutes, minutes on the core path."""
    rows = re.findall(r"^\| \**(\d\d [^|*]+?)\** \| ([^|]+?) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    assert len(rows) == 9
    return rows


def test_the_lessons_and_minutes_are_those_of_lesson_00():
    cells = json.loads((ROOT / "notebooks" / "00_start_here.ipynb").read_text())["cells"]
    assert lessons(README) == lessons("\n".join("".join(cell["source"]) for cell in cells))


def test_the_minutes_add_up_to_what_is_said():
    hours, core_hours = re.search(r"About (\d+) hours .+ takes about (\d+);", README, re.DOTALL).groups()
    minutes, core = (sum(int(row[column]) for row in lessons(README)) for column in (2, 3))
    assert (round(minutes / 60), round(core / 60)) == (int(hours), int(core_hours))


def test_its_table_has_the_lessons_that_are_there():
    there = sorted(path.name[:2] for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert re.findall(r"^\| (\d\d) .* \|$", README, re.MULTILINE) == there


def test_files_commands_and_targets_that_it_names_are_there():
    makefile = (ROOT / "Makefile").read_text()
    blocks = " ".join(re.findall(r"```[^`]+```", README))
    for target in re.findall(r"\bmake ([a-z-]+)", blocks):
        assert re.search(f"^{target}:", makefile, re.MULTILINE), target
    for command in re.findall(r"(?:/course|course_lib|\ncourse) ([a-z]+)\b", blocks):
        assert command in cli.COMMANDS, command
    for path in re.findall(r"\b(?:tools|notebooks)/[\w.]+", README):
        assert (ROOT / path).exists(), path


def test_its_pictures_are_there_and_say_what_they_show():
    pictures = re.findall(r"^!\[(.+)\]\((.+)\)$", README, re.MULTILINE)
    names = [f"docs/pictures/{picture.name}.png" for picture in readme_pictures.PICTURES]
    assert [path for _, path in pictures] == names
    for says, path in pictures:
        assert len(says.split()) >= 10 and (ROOT / path).is_file()


def test_its_pictures_are_of_cells_that_the_lessons_have():
    for picture in readme_pictures.PICTURES:
        cells = readme_pictures.excerpt(picture).cells
        assert [cell.id for cell in cells] == list(picture.cells)
        assert not any(cell.outputs for cell in cells)
