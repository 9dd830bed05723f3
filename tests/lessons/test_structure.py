"""What holds for every lesson: its order, its size, and what may stand in it."""

import ast
import re
from itertools import pairwise
from pathlib import Path
from statistics import median

import nbformat
import pytest

from course_lib.working_copy import write_working_copy
from tools.clean_notebooks import refusals, text_of

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))

CELL_TAGS = {
    "predict",  # holds one call of predict
    "fails-on-purpose",  # shows a failure of ranks, so `course run` skips it
    "nbval-ignore-output",  # shows what differs by machine or by run: cores, seconds
    "core",  # a section of the core path
    "side-track",  # a section that may be skipped
}
NOT_FOR_LESSONS = {"matplotlib", "plotly", "subprocess", "multiprocessing", "threading", "IPython", "html"}
BRITISH = re.compile(
    r"\b\w*(?:colour|neighbour|behaviour|favour|centre|isation|"
    r"(?:synchron|optim|initial|util|normal|parallel|real)is(?:e|ed|er|es|ing)\b)\w*",
    re.IGNORECASE,
)
PREDICT = re.compile(r'^predict\("(?P<name>[\w -]+)", (?P<value>.+), "(?P<unit>[^"]+)"\)', re.MULTILINE)
COMPARE = re.compile(r'\bcompare\("(?P<name>[\w -]+)", .+, "(?P<unit>[^"]+)"(, computed=True)?\)')
MEASURED = re.compile(r"^  (measured|computed) +(?P<text>.+)$", re.MULTILINE)
LOCAL_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")

pytestmark = pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem, indirect=True)


@pytest.fixture
def lesson(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(lesson):
    return [cell for cell in lesson.cells if cell.cell_type == "code"]


def markdown_cells(cells):
    return [cell for cell in cells if cell.cell_type == "markdown"]


def tags(cell):
    return cell.metadata.get("tags", [])


def is_folded(cell):
    """Whether the reader must open its output first: such cells may follow each other."""
    return cell.metadata.get("jupyter", {}).get("outputs_hidden", False)


def shown(cell):
    return "\n".join(text_of(output) for output in cell.get("outputs", []))


def calls(cell, pattern):
    """The calls of predict or of compare in a cell, as (name, unit)."""
    return [(found["name"], found["unit"]) for found in pattern.finditer(cell.source)]


# --- cells ---


def test_ids_are_slugs_and_unique(lesson):
    ids = [cell.id for cell in lesson.cells]
    assert [name for name in ids if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)] == []
    assert [name for name in ids if re.fullmatch(r"[0-9a-f]{8}", name)] == []  # made up by Jupyter
    assert sorted(set(ids)) == sorted(ids)


def test_tags_are_known(lesson):
    assert {tag for cell in lesson.cells for tag in tags(cell)} <= CELL_TAGS


def test_cells_carry_no_other_metadata(lesson):
    assert {key for cell in lesson.cells for key in cell.metadata} <= {"tags", "jupyter"}
    assert set(lesson.metadata) <= {"kernelspec", "language_info"}


def test_code_cells_are_short(lesson):
    lengths = {cell.id: len(cell.source.splitlines()) for cell in code_cells(lesson)}
    assert {name: length for name, length in lengths.items() if length > 20} == {}
    assert median(lengths.values()) <= 8


def test_lines_fit_on_the_page(lesson):
    lines = [(cell.id, line) for cell in code_cells(lesson) for line in cell.source.splitlines()]
    assert [(name, line) for name, line in lines if len(line) > 100] == []


def test_no_launcher_plotting_or_html_code(lesson):
    imported = set()
    for cell in code_cells(lesson):
        assert not re.search(r"^\s*[%!]", cell.source, re.MULTILINE), f"{cell.id} has a magic"
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    assert imported & NOT_FOR_LESSONS == set()


def test_no_cell_ends_in_a_semicolon(lesson):
    """nbval runs cells in a way in which it does not hide the value, so the output would differ."""
    assert [cell.id for cell in code_cells(lesson) if cell.source.rstrip().endswith(";")] == []


# --- words around the code ---


def test_text_stands_before_each_code_cell_and_after_each_output(lesson):
    cells = [cell for cell in lesson.cells if not is_folded(cell)]
    assert cells[0].cell_type == cells[-1].cell_type == "markdown"
    for before, cell in pairwise(cells):
        assert "markdown" in (before.cell_type, cell.cell_type), f"no text between {before.id} and {cell.id}"


def test_sections_say_whether_they_are_on_the_core_path(lesson):
    for cell in markdown_cells(lesson.cells):
        if re.search(r"^## ", cell.source, re.MULTILINE):
            marked = {"core", "side-track"} & set(tags(cell))
            assert len(marked) == 1, f"{cell.id} is marked {sorted(marked)}"
            assert ("side-track" in marked) == ("**Side track" in cell.source), cell.id


def test_folded_answers_are_whole(lesson):
    for cell in markdown_cells(lesson.cells):
        opened, closed = cell.source.count("<details>"), cell.source.count("</details>")
        # Without the empty line, Markdown inside is shown as it was typed.
        well_begun = re.findall(r"<details><summary>.+</summary>\n\n", cell.source)
        assert opened == closed == len(well_begun), cell.id
        # Text right after a folded answer sticks to it: it belongs into a cell of its own.
        assert opened == 0 or cell.source.endswith("</details>"), cell.id
        # "12. The sum" would become the first item of a list.
        assert not re.search(r"</summary>\n\n\d+\. ", cell.source), cell.id


def test_no_html_but_folded_answers(lesson):
    """JupyterLab's colored boxes can't be read in its dark theme, and other pages don't show them."""
    code = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
    prose = [code.sub("", cell.source) for cell in markdown_cells(lesson.cells)]
    elements = {name for text in prose for name in re.findall(r"</?([a-z]+)\b[^>]*>", text)}
    assert elements <= {"details", "summary", "b"}


def test_one_spelling(lesson):
    assert [found[0] for cell in lesson.cells for found in BRITISH.finditer(cell.source)] == []


def test_links_lead_somewhere(lesson, tmp_path):
    """In the learner's copy, where lessons and exercises lie as the links expect."""
    write_working_copy(ROOT, tmp_path)
    links = [link for cell in markdown_cells(lesson.cells) for link in LOCAL_LINK.findall(cell.source)]
    assert [link for link in links if not (tmp_path / link).exists()] == []


def test_a_quiz_of_five_with_folded_answers_stands_before_the_recap(lesson):
    before, _ = next(pair for pair in pairwise(lesson.cells) if pair[1].id == "recap")
    questions, _, answers = before.source.partition("<details><summary><b>Answers</b></summary>")
    assert before.id == "quiz"
    assert re.findall(r"^(\d)\. ", questions, re.MULTILINE) == list("12345")
    assert re.findall(r"^\*\*(\d)\.\*\* ", answers, re.MULTILINE) == list("12345")


# --- predictions ---


def test_each_prediction_is_made_once_without_a_value_and_measured_later(lesson):
    predicted, measured = {}, {}
    for position, cell in enumerate(code_cells(lesson)):
        found = PREDICT.search(cell.source)
        assert bool(found) == ("predict" in tags(cell)) == ("predict(" in cell.source), cell.id
        for key in calls(cell, PREDICT):
            assert found["value"] == "None", f"{cell.id} gives a value away"
            assert key not in predicted, cell.id
            predicted[key] = position
        for key in calls(cell, COMPARE):
            measured.setdefault(key, position)
    assert predicted, "a lesson without a prediction"
    assert predicted.keys() == measured.keys()
    assert [key for key in predicted if measured[key] <= predicted[key]] == []


def test_no_measured_value_is_told_before_its_prediction(lesson):
    above, hidden = "", {}
    texts = []
    for cell in lesson.cells:
        for name, _ in calls(cell, PREDICT) if cell.cell_type == "code" else []:
            hidden[name] = above
        if cell.cell_type == "code" and calls(cell, COMPARE):
            names = [name for name, _ in calls(cell, COMPARE)]
            texts += zip(names, [found["text"] for found in MEASURED.finditer(shown(cell))], strict=True)
        above += f"\n{cell.source}\n{shown(cell)}"
    assert len(texts) == len(hidden)
    assert [pair for pair in texts if re.search(rf"(?<![\d.]){re.escape(pair[1])}\b", hidden[pair[0]])] == []


def test_what_a_prediction_hides_is_folded(lesson):
    """Else the reading stands on the same screen as the prediction."""
    for position, cell in enumerate(lesson.cells):
        if cell.cell_type == "code" and calls(cell, COMPARE):
            after = "".join(cell.source for cell in markdown_cells(lesson.cells[position + 1 : position + 4]))
            assert "<details><summary><b>Read the result</b>" in after, cell.id


def test_the_first_line_of_a_folded_output_gives_nothing_away(lesson):
    """JupyterLab shows it beside the fold, and learners get the outputs that stand before a prediction."""
    for cell in code_cells(lesson):
        if "predict" in tags(cell):
            break
        assert not is_folded(cell) or re.match(r'print\("[\w, ]+"\)\n', cell.source), cell.id


# --- stored outputs ---


def test_it_was_run_from_top_to_bottom(lesson):
    counts = [cell.execution_count for cell in code_cells(lesson)]
    assert counts == list(range(1, len(counts) + 1))


def test_no_error_and_nothing_on_stderr(lesson):
    outputs = [(cell.id, output) for cell in code_cells(lesson) for output in cell.outputs]
    assert [name for name, output in outputs if output.output_type == "error"] == []
    assert [name for name, output in outputs if output.get("name") == "stderr"] == []


def test_no_local_paths_or_addresses(lesson):
    assert list(refusals(lesson)) == []


def test_a_figure_says_what_it_shows(lesson):
    for cell in code_cells(lesson):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                alt = output.metadata.get("image/png", {}).get("alt", "")
                assert len(alt.split()) >= 5, cell.id
                assert output.data["text/plain"] == alt, cell.id


def test_failures_are_caught_printed_and_marked(lesson):
    for cell in code_cells(lesson):
        catches = re.search(r"except ranks\.\w+ as \w+:", cell.source)
        assert bool(catches) == ("fails-on-purpose" in tags(cell)), cell.id
