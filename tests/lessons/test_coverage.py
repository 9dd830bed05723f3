"""docs/coverage.md names cells that are there, and docs/glossary.md terms that lessons use."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORIGINAL_PARTS = 6  # of the original lesson
ROW = re.compile(r"^\| (?P<said>.+) \| (?P<lessons>[\d, ]+) \| (?P<cells>[▶`].+) \|$", re.MULTILINE)
CELL = re.compile(r"(▶?)`([\w-]+)`")
TERM = re.compile(
    r"^\| (?P<term>[^|]+) \| (?P<chinese>[^|]*) \| (?P<means>[^|]+) \| (?P<lesson>\d\d) \|$", re.M
)


def cells_of(number):
    [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    return {cell["id"]: cell for cell in json.loads(path.read_text())["cells"]}


def text_of(number):
    cells = cells_of(number).values()
    return " ".join(" ".join("".join(cell["source"]) for cell in cells).lower().split())


ROWS = list(ROW.finditer((ROOT / "docs" / "coverage.md").read_text()))
TERMS = list(TERM.finditer((ROOT / "docs" / "glossary.md").read_text()))


def test_all_lines_of_the_tables_are_read():
    text = (ROOT / "docs" / "coverage.md").read_text()
    heads = text.count("| lesson | cells |")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert heads == ORIGINAL_PARTS - 1
    assert len(ROWS) == len(lines) - 2 * heads


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["said"][:40])
def test_each_statement_has_cells_that_are_there(row):
    lessons = {number.strip(): cells_of(number.strip()) for number in row["lessons"].split(",")}
    named = CELL.findall(row["cells"])
    assert named
    for computes, name in named:
        found = [cells[name] for cells in lessons.values() if name in cells]
        assert found, f"no cell {name} in lesson {' or '.join(lessons)}"
        kind = "code" if computes else "markdown"
        assert kind in {cell["cell_type"] for cell in found}, f"{name} is no {kind} cell"
    for number, cells in lessons.items():
        assert any(name in cells for _, name in named), f"nothing of lesson {number}"


def test_the_glossary_is_in_order_and_each_term_once():
    terms = [row["term"].strip().lower() for row in TERMS]
    assert len(terms) >= 60
    assert terms == sorted(set(terms))


@pytest.mark.parametrize("row", TERMS, ids=lambda row: row["term"].strip())
def test_each_term_is_used_in_its_lesson(row):
    term = re.sub(r" \(.*\)", "", row["term"].strip()).lower()
    assert term in text_of(row["lesson"])
