"""`course check`: only right answers pass, and whatever else is in a learner's notebook has no effect."""

import json
import os
import time

import nbformat
import pytest

from course_lib import cli, exercise_sources
from course_lib.classroom import check, submission
from course_lib.classroom.submission import Unusable, fill_master
from course_lib.working_copy import COURSE_ROOT

EXERCISE = COURSE_ROOT / "exercises" / "00_exchange.ipynb"
SOLUTION = COURSE_ROOT / "exercises" / "solutions" / "00_exchange.ipynb"
CHECK = "print('right' if double(2) == 4 else 'WRONG')\n1.0 if double(2) == 4 else 0.5"


def graded(name, source, **grading):
    cell = nbformat.v4.new_code_cell(source, id=name)
    grading = {"grade": False, "solution": False, "locked": False, **grading}
    cell.metadata["nbgrader"] = {"schema_version": 3, "task": False, "grade_id": name, **grading}
    return cell


@pytest.fixture
def masters(tmp_path):
    """A small exercise that needs no ranks: its folder of masters."""
    answer = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
    checked = graded("check_double", CHECK, grade=True, locked=True, points=1)
    checked.execution_count = 2
    checked.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="right\n"),
        nbformat.v4.new_output("execute_result", {"text/plain": "1.0"}, execution_count=2),
    ]
    answered = graded("double", answer, solution=True)
    answered.execution_count = 1
    folder = tmp_path / "masters"
    folder.mkdir()
    master = exercise_sources.master(nbformat.v4.new_notebook(cells=[answered, checked]))
    nbformat.write(master, folder / "77_double.ipynb")
    return folder


def learners(masters, answer):
    """The notebook of a learner with this answer."""
    notebook = json.loads((masters / "77_double.ipynb").read_text())
    notebook["cells"][0]["source"] = [answer]
    return notebook


def result_of(masters, notebook, seconds=60):
    path = masters.parent / "77_double.ipynb"
    path.write_text(json.dumps(notebook))
    return check.check(path, seconds, masters)


RIGHT, WRONG = "def double(x):\n    return x + x", "def double(x):\n    return 3 * x"


def test_a_right_answer_passes_and_printing_in_its_cell_is_no_mistake(masters):
    result = result_of(masters, learners(masters, RIGHT + "\nprint('trying', double(3))"))
    assert (result.is_right, result.points, result.remarks) == (True, 1.0, [])


@pytest.mark.long
def test_a_wrong_answers_picture_is_shown_in_its_words(masters):
    path = masters / "77_double.ipynb"
    master = nbformat.read(path, as_version=4)
    master.cells[1].source = f"display({{'text/plain': 'two boxes are empty'}}, raw=True)\n{CHECK}"
    nbformat.write(master, path)
    (part,) = result_of(masters, learners(masters, WRONG)).parts
    assert part.message == "two boxes are empty\nWRONG"


def test_a_wrong_answer_gets_its_share_whatever_its_outputs_and_check_cells_say(masters):
    notebook = learners(masters, WRONG)
    notebook["cells"][1]["source"] = "print('right')\n1.0"
    result = result_of(masters, notebook)
    (part,) = result.parts
    assert (part.status, part.points, part.message) == ("wrong", 0.5, "WRONG")
    assert result.remarks == ["The check cell check_double has been changed; the original one is used."]


# Each starts a kernel, and all are treated alike: one of them in every run of the tests.
OTHER_MARKERS = [pytest.param(f"NBVAL_{name}", marks=pytest.mark.long) for name in ("SKIP", "IGNORE_OUTPUT")]


@pytest.mark.long
@pytest.mark.parametrize("marker", ["NBVAL_RAISES_EXCEPTION", *OTHER_MARKERS])
def test_nbvals_own_markers_win_nothing(masters, marker):
    assert not result_of(masters, learners(masters, f"# {marker}\n{WRONG}")).is_right


@pytest.mark.long
def test_an_answer_that_does_not_run_is_named(masters):
    result = result_of(masters, learners(masters, "def double(x:"))
    assert [part.status for part in result.parts] == ["error"]
    assert any(remark.startswith("The answer cell double does not run: ") for remark in result.remarks)


def test_an_answer_that_ends_the_kernel_is_named_at_once(masters):
    result = result_of(masters, learners(masters, "import os\nos._exit(0)"))
    assert result.remarks == ["The answer cell double does not run: it ended Python itself"]
    assert [part.status for part in result.parts] == ["not run"]


@pytest.mark.long
@pytest.mark.parametrize("answer", ["\ud800", "raise SystemExit"])
def test_an_answer_that_confuses_the_kernel_does_not_pass(masters, answer):
    result = result_of(masters, learners(masters, answer))
    assert not result.is_right
    assert [part.name for part in result.parts] == ["check_double"]


@pytest.mark.long
def test_an_answer_that_goes_on_for_ever_is_ended(masters, tmp_path):
    proof = tmp_path / "pid"
    answer = f"import os\nopen({str(proof)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    result = result_of(masters, learners(masters, answer), seconds=40)
    assert [part.status for part in result.parts] == ["not run"]
    assert result.remarks[-1] == "It was ended after 40 s."
    assert is_gone(int(proof.read_text()))


def is_gone(pid):
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.long
def test_a_missing_answer_cell_is_said_and_does_not_pass(masters):
    notebook = learners(masters, RIGHT)
    del notebook["cells"][0]["metadata"]["nbgrader"]
    path = masters.parent / "77_double.ipynb"
    path.write_text(json.dumps(notebook))
    with pytest.raises(Unusable, match="no answer cell of any exercise"):
        fill_master(path, masters)


def test_of_several_answer_cells_the_missing_one_is_named(tmp_path):
    notebook = json.loads(SOLUTION.read_bytes())
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != "exchange"]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(notebook))
    filled = fill_master(path)
    assert filled.exercise == "00_exchange"
    assert filled.remarks == ["The answer cell exchange is missing: take it from a fresh copy."]
    assert "NotImplementedError" in submission.answer_cells(filled.notebook)["exchange"]


def unusable(**changes):
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [], **changes}).encode()


TWICE = [{"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": "exchange"}}}] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its text is not JSON"),
        (b"print('right')", "its text is not JSON"),
        (b"\xff\xfe\x00", "its text is not JSON"),
        (b"[" * 100_000, "its text is not JSON"),
        (b"[]", "does not say its nbformat"),
        (unusable(nbformat=3), "Its nbformat is 3, not 4"),
        (unusable(nbformat="4"), "Its nbformat is '4', not 4"),
        (unusable(cells=None), "its cells can't be read"),
        (unusable(cells=[1]), "its cells can't be read"),
        (unusable(cells=[{"cell_type": "code", "metadata": {}, "source": [1]}]), "its cells can't be read"),
        (unusable(), "no answer cell of any exercise"),
        (unusable(cells=TWICE), "Two cells have the grade_id exchange"),
        (b" " * (21 * 2**20), "larger than 20 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_answer_is_refused_clearly(tmp_path, capsys, content, message):
    path = tmp_path / "00_exchange.ipynb"
    path.write_bytes(content)
    assert cli.main(["check", str(path)]) == 1
    assert message in capsys.readouterr().out


def test_what_is_no_file_is_refused_clearly(tmp_path, capsys):
    assert cli.main(["check", str(tmp_path / "none.ipynb"), str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "There is no such file." in printed and "This is not a file." in printed


@pytest.mark.long  # the solution is run in every run of the tests, as a notebook
def test_the_solution_passes_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.ipynb").write_bytes(SOLUTION.read_bytes())
    assert cli.main(["check", "mine.ipynb"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  4 of 4 points"


@pytest.mark.long
def test_the_untouched_exercise_is_not_yet_right(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "--json", str(EXERCISE)]) == 1
    (untouched,) = json.loads(capsys.readouterr().out)
    assert {part["status"] for part in untouched["parts"]} == {"not yet"}
    assert (untouched["points"], untouched["most_points"]) == (0, 4)


def test_the_solution_is_shown_only_when_asked_for(monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda question: "")
    assert cli.main(["solution", "00"]) == 1
    assert "def exchange" not in capsys.readouterr().out
    for arguments, answer in ((["--yes"], None), ([], "y")):
        monkeypatch.setattr("builtins.input", lambda question, answer=answer: answer)
        assert cli.main(["solution", "0", *arguments]) == 0
        shown = capsys.readouterr().out
        assert "def exchange" in shown and "SOLUTION" not in shown


def test_an_unknown_solution_is_said(capsys):
    assert cli.main(["solution", "99", "--yes"]) == 1
    assert "no solution of exercise 99" in capsys.readouterr().out
