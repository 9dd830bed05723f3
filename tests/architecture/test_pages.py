"""The two pages for those who change the course name files, parts and targets that are there."""

import re

import pytest

from tests.environment.repository import ROOT
from tools.draw_architecture import PARTS

PAGES = {path: (ROOT / path).read_text() for path in ("CONTRIBUTING.md", "docs/architecture.md")}
FOLDERS = "benchmarks|course_lib|docs|exercises|notebooks|tests|tools"
A_PATH = re.compile(rf"(?<![\w/.])(?:(?:{FOLDERS})/[\w./*]+|\.ci/run)")
EXAMPLE = re.compile(r"NN|\bname\b|test_name")  # stands for the file that is written


@pytest.mark.parametrize("page", PAGES)
def test_files_that_it_names_are_there(page):
    named = {name.rstrip(".") for name in A_PATH.findall(PAGES[page]) if not EXAMPLE.search(name)}
    assert named and [name for name in sorted(named) if not any(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES)
def test_targets_that_it_names_are_there(page):
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"(?:`|^)make ([a-z-]+)", PAGES[page], re.MULTILINE))
    assert [target for target in targets if not re.search(f"^{target}:", makefile, re.MULTILINE)] == []


def test_each_part_has_a_row_in_the_table():
    rows = re.findall(r"^\| ([\w ]+?) \|", PAGES["docs/architecture.md"], re.MULTILINE)
    assert set(rows) - {"part"} == set(PARTS) - {"commands"}


def test_modules_on_the_way_of_a_function_are_there():
    page = PAGES["docs/architecture.md"]
    names = set(re.findall(r"`([a-z_]+\.py)`", page))
    modules = {path.name for path in (ROOT / "course_lib").rglob("*.py")}
    assert len(names) > 10 and names <= modules
