"""The learner's copy: no answers in it, nothing of the learner's lost, nothing written without need."""

import json
import os
import subprocess
import sys

import pytest

from course_lib import cli, working_copy
from course_lib.working_copy import WorkingCopyError, write_working_copy

LESSON, EXERCISE = "00_start_here.ipynb", "exercises/00_exchange.ipynb"


def code(source, output="shown\n"):
    outputs = [{"output_type": "stream", "name": "stdout", "text": [output]}] if output else []
    return {"cell_type": "code", "source": [source], "outputs": outputs, "execution_count": 1, "metadata": {}}


def notebook(*cells):
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def read(path):
    return json.loads(path.read_text())


def snapshot(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def course(tmp_path):
    root = tmp_path / "course"
    write(root / "notebooks" / LESSON, notebook(code("a"), code("predict('x', None, 's')"), code("b")))
    write(root / EXERCISE, notebook(code("c", output="")))
    (root / "exercises" / "solutions").mkdir()
    write(root / "exercises" / "solutions" / "00_exchange.ipynb", notebook(code("the answer")))
    return root


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "my_course"


def test_outputs_that_follow_the_first_prediction_are_left_out(course, copy):
    write_working_copy(course, copy)
    cells = read(copy / LESSON)["cells"]
    assert [bool(cell["outputs"]) for cell in cells] == [True, False, False]
    assert [cell["execution_count"] for cell in cells] == [1, None, None]


def test_solutions_are_left_out(course, copy):
    write_working_copy(course, copy)
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*.ipynb")) == [LESSON, EXERCISE]


def test_nothing_is_written_when_nothing_is_new(course, copy):
    changes = write_working_copy(course, copy)
    assert [str(change) for change in changes] == [f"new: {LESSON}", f"new: {EXERCISE}"]
    before = snapshot(copy)
    assert write_working_copy(course, copy) == []
    assert snapshot(copy) == before


def test_a_deleted_file_comes_back(course, copy):
    write_working_copy(course, copy)
    (copy / EXERCISE).unlink()
    assert [str(change) for change in write_working_copy(course, copy)] == [f"restored: {EXERCISE}"]
    assert (copy / EXERCISE).exists()


def test_a_file_that_was_only_saved_is_left_alone_and_later_updated(course, copy):
    write_working_copy(course, copy)
    write(copy / LESSON, saved(read(copy / LESSON)))
    before = snapshot(copy)
    assert write_working_copy(course, copy) == []
    assert snapshot(copy) == before
    write(course / "notebooks" / LESSON, notebook(code("a, better")))
    assert [str(change) for change in write_working_copy(course, copy)] == [f"updated: {LESSON}"]
    assert read(copy / LESSON)["cells"][0]["source"] == ["a, better"]


def saved(content):
    """As JupyterLab saves it: with the learner's outputs and its own metadata."""
    content["metadata"]["language_info"] = {"name": "python"}
    for cell in content["cells"]:
        cell.update(code("".join(cell["source"]), "mine\n"))
    return content


def test_a_new_version_is_laid_beside_what_the_learner_changed(course, copy):
    write_working_copy(course, copy)
    mine = notebook(code("my answer"))
    write(copy / EXERCISE, mine)
    assert write_working_copy(course, copy) == []
    write(course / EXERCISE, notebook(code("c, second", output="")))
    (change,) = write_working_copy(course, copy)
    assert str(change) == (
        "new version: exercises/00_exchange.new.ipynb (you changed 00_exchange.ipynb, which stays as it is)"
    )
    assert read(copy / EXERCISE) == mine
    assert read(copy / change.path)["cells"][0]["source"] == ["c, second"]
    before = snapshot(copy)
    assert write_working_copy(course, copy) == []
    assert snapshot(copy) == before


def test_a_version_laid_beside_is_not_overwritten_either_once_changed(course, copy):
    write_working_copy(course, copy)
    write(copy / EXERCISE, notebook(code("my answer")))
    write(course / EXERCISE, notebook(code("second")))
    write_working_copy(course, copy)
    write(copy / "exercises/00_exchange.new.ipynb", notebook(code("my second answer")))
    write(course / EXERCISE, notebook(code("third")))
    (change,) = write_working_copy(course, copy)
    assert change.path.name == "00_exchange.new-2.ipynb"
    assert read(copy / "exercises/00_exchange.new.ipynb")["cells"][0]["source"] == ["my second answer"]


def test_a_version_laid_beside_and_untouched_gives_way_to_the_next(course, copy):
    write_working_copy(course, copy)
    write(copy / EXERCISE, notebook(code("my answer")))
    for text in ("second", "third"):
        write(course / EXERCISE, notebook(code(text)))
        (change,) = write_working_copy(course, copy)
        assert change.path.name == "00_exchange.new.ipynb"
    assert read(copy / change.path)["cells"][0]["source"] == ["third"]


def test_a_learner_who_took_the_new_version_gets_updates_again(course, copy):
    write_working_copy(course, copy)
    write(copy / EXERCISE, notebook(code("my answer")))
    write(course / EXERCISE, notebook(code("second", output="")))
    (change,) = write_working_copy(course, copy)
    os.replace(copy / change.path, copy / EXERCISE)
    write(course / EXERCISE, notebook(code("third", output="")))
    assert [str(change) for change in write_working_copy(course, copy)] == [f"updated: {EXERCISE}"]


DAMAGED = ["", "not JSON", "[1, 2]", '{"cells": 3}', '{"cells": ["a"]}', "[" * 100_000]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_counts_as_changed(course, copy, content):
    write_working_copy(course, copy)
    (copy / EXERCISE).write_text(content)
    write(course / EXERCISE, notebook(code("second")))
    write_working_copy(course, copy)
    assert (copy / EXERCISE).read_text() == content


LOST = [None, "not JSON", "{}", "[" * 100_000, '{"files": "a"}', '{"files": ["a"]}']
LOST += [json.dumps({"files": {EXERCISE: entry}}) for entry in ("a", ["a"], {"version": 3, "source": 4})]


@pytest.mark.parametrize("manifest", LOST)
@pytest.mark.parametrize("mine", [json.dumps(notebook(code("my answer"))), *DAMAGED])
def test_a_lost_manifest_loses_nothing_of_the_learners(course, copy, manifest, mine):
    write_working_copy(course, copy)
    (copy / EXERCISE).write_text(mine)
    (copy / working_copy.MANIFEST).unlink()
    if manifest is not None:
        (copy / working_copy.MANIFEST).write_text(manifest)
    assert [change.path.name for change in write_working_copy(course, copy)] == ["00_exchange.new.ipynb"]
    assert (copy / EXERCISE).read_text() == mine


def test_a_folder_without_lessons_is_refused(tmp_path):
    with pytest.raises(WorkingCopyError, match="No lessons found"):
        write_working_copy(tmp_path, tmp_path / "my_course")


def test_a_file_in_the_place_of_the_folder_is_refused(course, copy):
    copy.write_text("mine")
    with pytest.raises(WorkingCopyError, match="Can't write the working copy"):
        write_working_copy(course, copy)
    assert copy.read_text() == "mine"


def test_a_crash_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    target = tmp_path / "file"
    target.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        working_copy.write_atomically(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_text() == "old"


def test_the_working_copy_is_found_from_inside_it(course, copy, tmp_path):
    write_working_copy(course, copy)
    assert working_copy.find(copy / "exercises") == copy
    assert working_copy.find(tmp_path) is None


@pytest.fixture
def started(course, monkeypatch):
    """What `course lab` would have become."""
    calls = []
    monkeypatch.setattr(working_copy, "COURSE_ROOT", course)
    monkeypatch.setattr(working_copy, "_become", lambda *call: calls.append(call) or 0)
    return calls


def test_course_lab_opens_lesson_0_on_loopback_with_the_token_on(started, course, capsys):
    assert cli.main(["lab", "--no-browser"]) == 0
    ((command, environment, folder),) = started
    assert folder == course / "my_course"
    assert command[1:] == [
        "-m", "jupyterlab", f"--ServerApp.root_dir={folder}", "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port=0", f"--LabApp.default_url=/lab/tree/{LESSON}", "--no-browser",
    ]  # fmt: skip
    assert not [option for option in command if "token" in option or "password" in option]
    assert capsys.readouterr().out == f"Your own copy of the course: {folder} (2 notebooks)\n"


def test_course_lab_hands_any_option_to_jupyterlab(started):
    cli.main(["lab", "--allow-root", "--port=9000", "--ServerApp.ip=::1"])
    command = started[0][0]
    assert command[-3:] == ["--allow-root", "--port=9000", "--ServerApp.ip=::1"]
    # JupyterLab refuses an option that is given twice.
    assert "--ServerApp.port=0" not in command and "--ServerApp.ip=127.0.0.1" not in command


def test_course_lab_leaves_the_users_jupyter_settings_in_place(started, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "mine")
    cli.main(["lab"])
    paths = started[0][1]["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert paths[-1] == "mine"
    assert not {"JUPYTER_CONFIG_DIR", "JUPYTERLAB_SETTINGS_DIR"} & (set(started[0][1]) - set(os.environ))


def test_course_lab_brings_its_defaults_to_a_copy_that_has_older_ones(started, course):
    file = course / "my_course" / ".course" / "jupyter" / "labconfig" / "default_setting_overrides.json"
    cli.main(["lab"])
    written = file.read_bytes()
    file.write_text("{}")
    cli.main(["lab"])
    assert file.read_bytes() == written
    assert json.loads(written)["@jupyterlab/notebook-extension:tracker"]["codeCellConfig"]["lineWrap"]


def test_course_lab_says_what_is_in_the_way(started, course, capsys):
    (course / "my_course").write_text("")
    assert cli.main(["lab"]) == 1
    assert "Can't write the working copy" in capsys.readouterr().out
    assert not started


def test_course_lab_imports_nothing_slow():
    slow = {"torch", "numpy", "nbformat", "nbgrader", "jupyterlab", "matplotlib", "asyncio"}
    code = f"import sys, course_lib.working_copy; print(sorted({slow!r} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
