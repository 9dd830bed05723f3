"""What Jupyter Book is given: links, cells and pages in their places.  tests/browser sees the site."""

import re
import subprocess
import sys

import nbformat
import pytest
from nbformat import v4
from pygments.lexers import get_lexer_by_name
from pygments.token import Token

from course_lib import explorers
from tests.environment.repository import ROOT
from tools.site import __main__ as command
from tools.site import explorer_states, pages

LESSONS = {path.stem[:2]: path for path in (ROOT / "notebooks").glob("*.ipynb")}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """All that Jupyter Book reads."""
    folder = tmp_path_factory.mktemp("book")
    pages.write_pages(folder)
    return folder


def cell_with(*pictures, **metadata):
    outputs = [v4.new_output("display_data", {"image/png": "iVBO"}) for _ in pictures]
    for output, alt in zip(outputs, pictures, strict=True):
        output.metadata = {"image/png": {"alt": alt, "width": 800, "height": 9}}
    return v4.new_code_cell("1", outputs=outputs, metadata=metadata)


def test_each_page_is_in_the_contents_once(book):
    named = [each["file"] for part in pages.contents(book)["parts"] for each in part["chapters"]]
    there = [path.relative_to(book).as_posix() for kind in ("*.md", "*.ipynb") for path in book.rglob(kind)]
    assert sorted([*named, "index.md"]) == sorted(there)


def test_no_solution_and_no_master_is_among_them(book):
    assert {path.parent.name for path in book.rglob("*.ipynb")} == {book.name, "exercises"}
    assert "BEGIN SOLUTION" not in "".join(path.read_text() for path in book.rglob("*.ipynb"))


def test_lessons_keep_their_cells_and_outputs(book):
    for path in LESSONS.values():
        before, after = (nbformat.read(each, 4).cells for each in (path, book / path.name))
        kept = [cell for cell in after if not cell.source.startswith("<div id=")]
        assert [cell.id for cell in kept] == [cell.id for cell in before]
        assert [cell.get("outputs") for cell in kept] == [cell.get("outputs") for cell in before]


def test_code_in_texts_is_in_the_language_that_it_is_said_to_be(book):
    """Else the build warns, which ends it."""
    texts = [path.read_text() for path in book.rglob("*.md")]
    for path in book.rglob("*.ipynb"):
        cells = nbformat.read(path, 4).cells
        texts += [cell.source for cell in cells if cell.cell_type == "markdown"]
    blocks = [block for text in texts for block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)]
    assert {language for language, _ in blocks} >= {"python", "text"}
    for language, code in blocks:
        wrong = [word for kind, word in get_lexer_by_name(language).get_tokens(code) if kind is Token.Error]
        assert not wrong, code


def test_the_instructors_kit_is_not_among_them(book):
    """It holds the answers to what learners are asked."""
    assert not (book / "docs" / "instructor").exists()
    assert "](docs/instructor" not in (book / "index.md").read_text()


def test_the_map_of_the_lessons_leads_to_them(book):
    for name in ("index.md", "00_start_here.ipynb"):
        rows = re.findall(r"\| \**\[(\d\d) [^\]]+\]\((\d\d)_\w+\.ipynb\)\** \|", (book / name).read_text())
        assert rows == [(number, number) for number in sorted(LESSONS)], name


def test_cells_of_the_coverage_are_linked(book):
    text = (book / "docs/coverage.md").read_text()
    assert len(re.findall("<a href=", text)) > 60
    assert not re.search(r"\| .*`[\w-]+`(, .*)? \|$", text, re.MULTILINE)


def test_a_picture_takes_its_description_along():
    _, cell = pages._prepared(cell_with("Two bars", tags=["nbval-ignore-output"]), LESSONS)
    assert cell.metadata == {"tags": [], "mystnb": {"image": {"alt": "Two bars", "width": "800px"}}}


def test_two_pictures_of_one_cell_are_refused():
    with pytest.raises(ValueError, match="shows 2 pictures: expected one"):
        pages._prepared(cell_with("One", "Two"), LESSONS)


def test_a_folded_output_stays_folded():
    _, cell = pages._prepared(cell_with(jupyter={"outputs_hidden": True}), LESSONS)
    assert cell.metadata.tags == ["hide-output"]


def test_each_explorer_is_shown_in_several_places():
    paths = (ROOT / "course_lib" / "explorers").glob("*.py")
    shown = {tour.explorer.__name__.removeprefix(f"{explorers.__name__}.") for tour in explorer_states.TOURS}
    assert shown == {path.stem for path in paths if "\ndef explorer(" in path.read_text()}
    assert all(len(set(tour.states.values())) >= 3 for tour in explorer_states.TOURS)


def test_explorers_are_drawn_without_torch():
    code = "import sys\nfrom tools.site import pages\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").touch()
    assert "something else than a site" in command.main([str(tmp_path)])
    assert (tmp_path / "thesis.txt").exists()
