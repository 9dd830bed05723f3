"""`make student`: a zip with which learners can work, and without what they must not have."""

import json
import os
import subprocess
import sys
import zipfile

import pytest

from course_lib.classroom.submission import answer_cells
from tests.environment.repository import ROOT
from tools import student_copy

EXERCISE = "01_memory"
SOLUTIONS = sorted((ROOT / "exercises" / "solutions").glob("*.ipynb"))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The zip, opened."""
    folder = tmp_path_factory.mktemp("student")
    assert student_copy.main([str(folder / "course.zip")]) == 0
    with zipfile.ZipFile(folder / "course.zip") as archive:
        archive.extractall(folder)
    return folder / student_copy.TOP


def run_in(course, *arguments):
    """A command of the course in the learners' copy, by this environment's Python."""
    command = [sys.executable, "-m", "course_lib", *arguments]
    own = {**os.environ, "PYTHONPATH": str(course), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=course, capture_output=True, text=True, timeout=240, env=own)


def test_no_solutions_pages_for_instructors_or_tests_are_in_it(course):
    names = {path.relative_to(course).as_posix() for path in course.rglob("*")}
    for left in ("exercises/solutions", "docs/instructor", "tests", ".git"):
        assert not [name for name in names if name == left or name.startswith(f"{left}/")], left


def answers_of(path):
    return answer_cells(json.loads(path.read_text()))


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_no_file_holds_a_solution(course, path):
    """No notebook has an answer cell that is filled in, and no page its text.

    The checks are in it, and compute what they expect, at times in the same words.
    """
    for copy in (course / "exercises" / path.name, course / "exercises" / "masters" / path.name):
        assert all("raise NotImplementedError()" in answer for answer in answers_of(copy).values())
    bodies = [answer.split("### BEGIN SOLUTION\n")[1].split("### END SOLUTION")[0].rstrip()
              for answer in answers_of(path).values()]  # fmt: skip
    for file in (*course.rglob("*.ipynb"), *course.rglob("*.md")):
        text = file.read_text()
        assert not [body for body in bodies if len(body) > 60 and body in text], file


def test_all_else_that_learners_use_is_in_it(course):
    for name in ("Makefile", "README.md", "pyproject.toml", "requirements.lock", "environment.yml",
                 "LICENSE", "docs/clusters.md", "cluster/agent.sh", "tools/environment.py",
                 "benchmarks/gpu.py", "course_lib/recorded/all-reduce.json",
                 "exercises/masters/08_beyond_one_machine.ipynb"):  # fmt: skip
        assert (course / name).is_file(), name
    assert len(list((course / "notebooks").glob("*.ipynb"))) == 9


def test_an_exercise_with_answers_is_checked_there(course):
    path = course / "exercises" / f"{EXERCISE}.ipynb"
    untouched = path.read_text()
    notebook, answers = json.loads(untouched), answers_of(ROOT / "exercises" / "solutions" / path.name)
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    path.write_text(json.dumps(notebook))
    done = run_in(course, "check", str(path), "--json")
    path.write_text(untouched)
    (result,) = json.loads(done.stdout)
    assert (result["points"], result["most_points"], done.returncode) == (5.0, 5.0, 0)


@pytest.mark.long
def test_an_untouched_exercise_is_not_right_there(course):
    done = run_in(course, "check", f"exercises/{EXERCISE}.ipynb", "--json")
    (result,) = json.loads(done.stdout)
    assert (result["points"], result["most_points"], done.returncode) == (0.0, 5.0, 1)


def test_solution_says_why_there_is_none(course):
    done = run_in(course, "solution", "01", "--yes")
    assert done.stdout == "Solutions are not in this copy of the course: your instructor has them.\n"
    assert (done.returncode, done.stderr) == (1, "")


def test_solutions_that_are_handed_out_later_are_shown(course):
    folder = course / "exercises" / "solutions"
    folder.mkdir()
    (folder / SOLUTIONS[0].name).write_bytes(SOLUTIONS[0].read_bytes())
    done = run_in(course, "solution", "00", "--yes")
    (folder / SOLUTIONS[0].name).unlink()
    folder.rmdir()
    assert done.returncode == 0 and "def neighbors(rank, ranks):" in done.stdout


def test_tests_that_are_not_there_are_said(course):
    done = subprocess.run(["make", "test"], cwd=course, capture_output=True, text=True, timeout=60)
    assert "The tests are not in this copy of the course." in done.stdout
    assert done.returncode != 0 and not (course / ".venv-test").exists()


def test_the_same_files_give_the_same_zip(tmp_path):
    for name in ("one.zip", "two.zip"):
        student_copy.write(tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_scripts_stay_executable(tmp_path):
    student_copy.write(tmp_path / "course.zip")
    with zipfile.ZipFile(tmp_path / "course.zip") as archive:
        mode = archive.getinfo("course/cluster/agent.sh").external_attr >> 16
    assert mode & 0o111


def test_a_folder_without_git_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(student_copy, "files", lambda root: subprocess.check_output(["false"]))
    assert student_copy.main([str(tmp_path / "course.zip")]) == 1
    assert "no git checkout" in capsys.readouterr().out
