"""The solution notebooks are nbgrader sources: the real nbgrader, from the assignment to the grades."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_lib.working_copy import COURSE_ROOT

EXERCISES = COURSE_ROOT / "exercises"
NAME = "00_exchange.ipynb"


@pytest.fixture
def classroom(tmp_path):
    source = tmp_path / "source" / "exercise"
    source.mkdir(parents=True)
    (source / NAME).write_bytes((EXERCISES / "solutions" / NAME).read_bytes())
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'course'\n")
    return tmp_path


def nbgrader(folder, *arguments):
    # It starts alembic by name; the settings of whoever runs the tests are left alone.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {name: str(folder / ".own") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    environment = {**os.environ, **own, "PATH": path}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, run.stderr[-3000:]


def submit(folder, student, answered):
    """The learner's notebook with the solution's text in some of the answer cells."""
    solution = {cell.id: cell.source for cell in nbformat.read(EXERCISES / "solutions" / NAME, 4).cells}
    notebook = nbformat.read(folder / "release" / "exercise" / NAME, 4)
    for cell in notebook.cells:
        if cell.id in answered:
            cell.source = solution[cell.id]
    target = folder / "submitted" / student / "exercise"
    target.mkdir(parents=True)
    nbformat.write(notebook, target / NAME)


@pytest.mark.long
def test_from_the_source_to_the_grades(classroom):
    nbgrader(classroom, "generate_assignment", "exercise", "--create")
    released = classroom / "release" / "exercise" / NAME
    assert released.read_bytes() == (EXERCISES / NAME).read_bytes()
    submit(classroom, "all", {"neighbors", "pass_right", "exchange"})
    submit(classroom, "half", {"neighbors", "pass_right"})
    submit(classroom, "none", set())
    nbgrader(classroom, "autograde", "exercise")
    nbgrader(classroom, "generate_feedback", "exercise")
    nbgrader(classroom, "export")
    with (classroom / "grades.csv").open() as file:
        grades = {row["student_id"]: (row["score"], row["max_score"]) for row in csv.DictReader(file)}
    assert grades == {"all": ("4.0", "4.0"), "half": ("2.0", "4.0"), "none": ("0.0", "4.0")}
    for student in grades:
        assert (classroom / "feedback" / student / "exercise" / NAME).with_suffix(".html").exists()
