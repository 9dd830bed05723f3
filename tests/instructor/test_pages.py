"""The instructor's pages name nothing that is not there, and their minutes add up."""

import ast
import builtins
import importlib
import json
import re
import symtable

import pytest

from course_lib import cli
from tests.environment.repository import ROOT

KIT = ROOT / "docs" / "instructor"
PAGES = sorted(KIT.glob("[0-9][0-9]_*.md"))
ALL_PAGES = sorted(KIT.glob("*.md"))
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXPLORERS = ROOT / "course_lib" / "explorers"
SECTIONS = ["Prepare", "What needs Linux or GPUs", "50 minutes", "90 minutes", "Predictions", "Questions",
            "Common mistakes", "What the marking looks at"]  # fmt: skip
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")

of_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)


def cells(folder, number):
    """The cells of the lesson, or of the exercise, of this number."""
    return json.loads(next((ROOT / folder).glob(f"{number}_*.ipynb")).read_text())["cells"]


def ids(number):
    return {cell["id"] for folder in ("notebooks", "exercises") for cell in cells(folder, number)}


def source(number):
    return "\n".join("".join(cell["source"]) for cell in cells("notebooks", number))


def section(page, title):
    pattern = rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)"
    return re.search(pattern, page.read_text(), re.MULTILINE | re.DOTALL)[1]


def rows(text):
    """The rows of a table as lists of cells, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


# --- a lesson's page ---


def test_each_lesson_has_its_page():
    assert [page.stem for page in PAGES] == [lesson.stem for lesson in LESSONS]


@of_each_page
def test_sections_are_those_of_the_template(page):
    assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == SECTIONS


@of_each_page
@pytest.mark.parametrize("minutes", [50, 90])
def test_minutes_add_up(page, minutes):
    sheet = rows(section(page, f"{minutes} minutes"))
    assert sum(int(row[0]) for row in sheet) == minutes
    assert all(len(row) == 3 and row[1] for row in sheet)


@of_each_page
@pytest.mark.parametrize("minutes", [50, 90])
def test_cells_of_the_run_sheets_are_there_and_in_their_order(page, minutes):
    number = page.name[:2]
    sheet = rows(section(page, f"{minutes} minutes"))
    named = [name for row in sheet for name in re.findall(r"`([^`]+)`", row[2])]
    assert [name for name in named if name not in ids(number)] == []
    place = {cell["id"]: position for position, cell in enumerate(cells("notebooks", number))
             if cell["cell_type"] == "code"}  # fmt: skip
    in_lesson = [place[name] for name in named if name in place]
    assert in_lesson == sorted(in_lesson)


@of_each_page
@pytest.mark.parametrize("minutes", [50, 90])
def test_a_run_sheet_runs_all_that_its_cells_need(page, minutes):
    """A class that runs the named cells only must not see a NameError."""
    named = set(re.findall(r"`([^`]+)`", section(page, f"{minutes} minutes").partition("**Cut for this")[0]))
    defined = {*dir(builtins), "display"}
    for cell in cells("notebooks", page.name[:2]):
        if cell["cell_type"] == "code" and cell["id"] in named:
            own, used = globals_of("".join(cell["source"]))
            assert used - own - defined == set(), cell["id"]
            defined |= own


def globals_of(source):
    """The global names that a cell defines, and those that it reads, inside its functions too."""
    cell = symtable.symtable(source, "cell", "exec")
    own = {name.get_name() for name in cell.get_symbols() if name.is_assigned() or name.is_imported()}
    return own, {name.get_name() for scope in scopes(cell) for name in scope.get_symbols()
                 if name.is_referenced() and (scope is cell or name.is_global())}  # fmt: skip


def scopes(table):
    yield table
    for child in table.get_children():
        yield from scopes(child)


@of_each_page
def test_each_prediction_has_its_line(page):
    predicted = re.findall(r'^predict\("([^"]+)"', source(page.name[:2]), re.MULTILINE)
    assert sorted(row[0] for row in rows(section(page, "Predictions"))) == sorted(predicted)


@of_each_page
def test_wrong_answers_are_stored_with_the_sentence_that_is_told(page):
    folder = ROOT / "tests" / "wrong_answers" / f"exercise_{page.name[:2]}"
    mistakes = rows(section(page, "Common mistakes"))
    assert len(mistakes) >= 10
    for name, says, ask in mistakes:
        assert sentence(folder / f"{name.strip('`')}.py") in says.replace("\\|", "|"), name
        assert ask.endswith(("?", ".", ")")), name


def sentence(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "SENTENCE":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} has no SENTENCE")


@of_each_page
def test_each_check_has_its_line(page):
    checks = [cell["id"] for cell in cells("exercises", page.name[:2])
              if cell["metadata"].get("nbgrader", {}).get("grade")]  # fmt: skip
    assert [row[0].strip("`") for row in rows(section(page, "What the marking looks at"))] == checks


@of_each_page
def test_names_in_italics_are_sections_or_controls(page):
    number = page.name[:2]
    headings = re.findall(r"^#+ (.+)$", source(number), re.MULTILINE)
    known = {*headings, *controls(number), *SECTIONS, "Side track"}
    said_by_checks = section(page, "Common mistakes")
    prose = re.sub(r"`[^`]*`|\*\*[^*]+\*\*", "", page.read_text().replace(said_by_checks, ""))
    assert [name for name in re.findall(r"\*([^*]+)\*", prose) if name not in known] == []


def controls(number):
    """What the controls of a lesson's explorers are called."""
    text = source(number)
    names = [path.stem for path in EXPLORERS.glob("*.py")
             if re.search(rf"explorers(\.| import (\w+, )*){path.stem}\b", text)]  # fmt: skip
    found = set()
    for name in names:
        module = importlib.import_module(f"course_lib.explorers.{name}")
        if hasattr(module, "explorer"):
            found |= {control.description for control in module.explorer()._controls.values()}
    return found


@of_each_page
def test_minutes_and_parts_are_those_of_lesson_and_exercise(page):
    number = page.name[:2]
    lesson, exercise = re.findall(r"\*\* \| \[.+?\): (\d+) minutes", page.read_text())
    assert re.search(rf"\*\*Time\*\* \| {lesson} minutes, and {exercise} for the exercise", source(number))
    parts = int(re.search(r"(\d+) parts", page.read_text())[1])
    checks = rows(section(page, "What the marking looks at"))
    assert parts == len(checks)


# --- all pages ---


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(page):
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, anchor


def slug(heading):
    """The anchor that a heading gets."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda path: path.stem)
def test_commands_and_targets_are_there(page):
    text = page.read_text()
    code = "\n".join([*re.findall(r"```[^`]*```", text), *re.findall(r"`[^`\n]+`", text)])
    for command in re.findall(r"\bcourse ([a-z]+)\b", code):
        assert command in cli.COMMANDS, command
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z-]+)", code):
        assert re.search(f"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"\b(?:benchmarks|cluster|tools)/[\w.]+\w", text):
        assert (ROOT / path).exists(), path


def test_every_page_is_in_the_index():
    index = (KIT / "README.md").read_text()
    others = [page.name for page in ALL_PAGES if page.name != "README.md"]
    assert [name for name in others if name not in index] == []


def test_the_paper_ring_takes_ten_minutes():
    script = section(KIT / "paper_ring.md", "The script")
    assert sum(int(row[0]) for row in rows(script)) == 10


def test_what_catching_up_needs_is_what_the_lessons_say():
    needed = {row[0]: row[1] for row in rows(section(KIT / "README.md", "Catching up"))}
    for lesson in LESSONS[1:]:
        number = lesson.name[:2]
        says = re.search(r"\*\*You need\*\* \| ([^|\n]+)", source(number))[1]
        assert re.findall(r"\b0\d\b", says) == re.findall(r"\b0\d\b", needed[number]), number
