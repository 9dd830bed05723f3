"""The solution notebooks are nbgrader sources: the real nbgrader, from the assignment to the grades."""

import csv
import os
import subprocess
import sys
from math import isclose

import nbformat
import pytest

from course_lib.working_copy import COURSE_ROOT
from tests.exercises import answers
from tools.run_nbgrader import GRADEBOOK

EXERCISES = COURSE_ROOT / "exercises"
SOLUTIONS = sorted((EXERCISES / "solutions").glob("*.ipynb"))
FIRST, *OTHERS = SOLUTIONS
ASSIGNMENT = "exercise"


def folder_of(root, name):
    return root / name / ASSIGNMENT


def begin(root, source):
    """A course's folder with one assignment, which is not made yet."""
    folder_of(root, "source").mkdir(parents=True)
    (folder_of(root, "source") / source.name).write_bytes(source.read_bytes())
    (root / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'course'\n")


def nbgrader(root, *arguments):
    # The settings of whoever runs the tests are left alone.
    own = {name: str(root / ".own") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    command = [sys.executable, "-m", "tools.run_nbgrader", *arguments]
    search = os.pathsep.join([str(COURSE_ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **own, "PYTHONPATH": search}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=1500)


def succeed(root, *arguments):
    run = nbgrader(root, *arguments)
    assert run.returncode == 0, run.stderr[-3000:]


def is_answer(cell):
    return cell.metadata.get("nbgrader", {}).get("solution", False)


def is_check(cell):
    return cell.metadata.get("nbgrader", {}).get("grade", False)


def submit(root, student, source, changed):
    """The learner's notebook, some of its cells ``changed``: their sources by their ids."""
    notebook = nbformat.read(folder_of(root, "release") / source.name, 4)
    for cell in notebook.cells:
        cell.source = changed.get(cell.id, cell.source)
    target = folder_of(root / "submitted", student)
    target.mkdir(parents=True)
    nbformat.write(notebook, target / source.name)


def grades(root):
    succeed(root, "export")
    with (root / "grades.csv").open() as file:
        rows = [*csv.DictReader(file)]
    return {row["student_id"]: (float(row["score"]), float(row["max_score"])) for row in rows}


def graded_outputs(root, student, source):
    """The outputs of the check cells that nbgrader has run."""
    notebook = nbformat.read(folder_of(root / "autograded", student) / source.name, 4)
    return [output for cell in notebook.cells if is_check(cell) for output in cell.outputs]


def drive(root, source, more=None):
    """All of nbgrader on one exercise.  Four students, and ``more`` of them, by name: what they changed."""
    cells = nbformat.read(source, 4).cells
    right = {cell.id: cell.source for cell in cells if is_answer(cell)}
    first_half = dict([*right.items()][: len(right) // 2])
    points = {cell.id: 1 for cell in cells if is_check(cell)}
    begin(root, source)
    succeed(root, "generate_assignment", ASSIGNMENT, "--create")
    released = folder_of(root, "release") / source.name
    assert released.read_bytes() == (EXERCISES / source.name).read_bytes()
    submitted = {
        "all": right, "half": first_half, "none": {}, "tampered": {check: "1.0" for check in points},
        **(more or {}),
    }  # fmt: skip
    for student, changed in submitted.items():
        submit(root, student, source, changed)
    succeed(root, "autograde", ASSIGNMENT)
    succeed(root, "generate_feedback", ASSIGNMENT)
    got = grades(root)
    most = float(len(points))
    assert got["all"] == (most, most)
    assert got["none"] == got["tampered"] == (0.0, most)
    # Each answer is followed by its checks, and needs no later answer.
    assert got["half"] == (float(_checks_of(cells, first_half)), most)
    for student in submitted:
        outputs = graded_outputs(root, student, source)
        assert not [output for output in outputs if output.get("name") == "stderr"]
        assert not [output for output in outputs if output.output_type == "error"]
        assert (folder_of(root / "feedback", student) / source.name).with_suffix(".html").exists()
    return got


def _checks_of(cells, answered):
    count, last = 0, ""
    for cell in cells:
        last = cell.id if is_answer(cell) else last
        count += is_check(cell) and last in answered
    return count


@pytest.mark.long
@pytest.mark.timeout(600)
def test_from_the_source_to_the_grades(tmp_path):
    """A student's answer that is wrong on two ranks only gets the shares that the checks give."""
    path = answers.TESTS / "wrong_answers" / "exercise_00" / "two_ranks_crossed.py"
    answer = answers.load(path)
    shares = [answers.check("exercise_00", part, answer) for part in ("exchange", "ready_for_nccl")]
    assert all(0 < share < 1 for share in shares)
    got = drive(tmp_path, FIRST, {"some": {"exchange": path.read_text()}})
    assert isclose(got["some"][0], sum(shares))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", OTHERS, ids=lambda source: source.stem)
def test_from_each_source_to_the_grades(tmp_path, source):
    drive(tmp_path, source)


@pytest.mark.long
def test_a_failure_leaves_no_gradebook_behind(tmp_path):
    begin(tmp_path, FIRST)
    (folder_of(tmp_path, "source") / FIRST.name).write_text("no notebook")
    run = nbgrader(tmp_path, "generate_assignment", ASSIGNMENT, "--create")
    assert run.returncode != 0
    assert not (tmp_path / GRADEBOOK).exists()
