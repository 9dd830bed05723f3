"""The learners' notebooks and the masters are made from the solutions, and from nothing else."""

import json
import re

import nbformat
import pytest

from course_lib import exercise_sources
from course_lib.working_copy import COURSE_ROOT
from tests.ranks.kernels import kernel

EXERCISES = COURSE_ROOT / "exercises"
SOLUTIONS = sorted((EXERCISES / "solutions").glob("*.ipynb"))
each_solution = pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_making_them_again_changes_nothing():
    made = exercise_sources.generate(EXERCISES)
    assert len(made) == 2 * len(SOLUTIONS) > 0
    assert [path.name for path, content in made.items() if path.read_bytes() != content] == []
    present = {*EXERCISES.glob("*.ipynb"), *(EXERCISES / "masters").glob("*.ipynb")}
    assert present == set(made)


@each_solution
def test_they_hold_no_solution(path):
    source = "\n".join(cell.source for cell in code_cells(read(path)))
    solved = "\n".join(re.findall(r"BEGIN SOLUTION\n(.*?)\n\s*### END", source, re.DOTALL))
    secrets = [line.strip() for line in solved.splitlines() if len(line) > 30]
    assert secrets
    for made in (EXERCISES / path.name, EXERCISES / "masters" / path.name):
        text = "\n".join(cell.source for cell in read(made).cells)
        assert "SOLUTION" not in text
        assert [line for line in secrets if line in text] == []


@each_solution
def test_a_learners_notebook_has_no_outputs_and_a_master_has_all(path):
    assert not any(cell.outputs for cell in code_cells(read(EXERCISES / path.name)))
    master = code_cells(read(EXERCISES / "masters" / path.name))
    assert [cell.outputs for cell in master] == [cell.outputs for cell in code_cells(read(path))]


@each_solution
def test_each_check_cell_is_one_line_and_ends_in_full_marks(path):
    checks = [cell for cell in code_cells(read(path)) if cell.metadata.get("nbgrader", {}).get("grade")]
    assert checks
    for cell in checks:
        assert len(cell.source.splitlines()) == 1
        assert cell.outputs[-1].data["text/plain"] == "1.0"


@each_solution
def test_the_expected_output_in_the_text_is_the_one_of_the_check(path):
    notebook = read(path)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    shown = re.findall(r"Expected output</summary>\n\n```text\n(.*?)\n```", prose, re.DOTALL)
    checks = [cell for cell in code_cells(notebook) if cell.metadata.get("nbgrader", {}).get("grade")]
    printed = [cell.outputs[0].text.rstrip("\n") for cell in checks]
    assert shown == printed


@pytest.fixture(scope="module")
def learner(tmp_path_factory):
    """A kernel in a folder of its own, for one notebook after the other: it takes longest to start."""
    folder = tmp_path_factory.mktemp("learner")
    with kernel(IPYTHONDIR=str(folder)) as started:
        started.run(f"%cd -q {folder}")
        yield started


@each_solution
def test_a_learners_notebook_unchanged_runs_to_its_end_and_nothing_passes(path, learner):
    learner.run("%reset -f")
    checks = 0
    for cell in code_cells(read(EXERCISES / path.name)):
        shown = learner.run(cell.source, seconds=120)
        assert (shown.error, shown.stderr) == ("", "")
        if cell.metadata.get("nbgrader", {}).get("grade"):
            checks += 1
            assert ": not yet." in shown.stdout
            assert (shown.value, shown.displayed) == ("0.0", [])
    assert checks


def solution():
    """A source with one answer and one check cell."""
    answer = {"grade": False, "solution": True, "locked": False}
    check = {"grade": True, "solution": False, "locked": True, "points": 1}
    cells = []
    for name, grading, source in (
        ("f", answer, "### BEGIN SOLUTION\nf = 1\n### END SOLUTION"),
        ("check_f", check, "1.0"),
    ):
        cell = nbformat.v4.new_code_cell(source, id=name)
        cell.metadata["nbgrader"] = {"schema_version": 3, "task": False, "grade_id": name, **grading}
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells)


def test_a_check_cell_worth_other_than_one_point_is_refused():
    source = solution()
    source.cells[1].metadata.nbgrader.points = 2
    with pytest.raises(ValueError, match="cell check_f: expected 1 point"):
        exercise_sources.learners(source)


def test_an_answer_without_a_solution_region_is_refused():
    source = solution()
    source.cells[0].source = "f = 1"
    with pytest.raises(ValueError, match="cell f: expected a region"):
        exercise_sources.master(source)


def test_ids_must_be_the_grade_ids():
    source = solution()
    source.cells[0].id = "other"
    with pytest.raises(ValueError, match="cell other: expected the grade_id f"):
        exercise_sources.master(source)


def test_the_source_is_left_as_it_was():
    source = solution()
    before = json.dumps(source, sort_keys=True)
    exercise_sources.learners(source)
    assert json.dumps(source, sort_keys=True) == before
