"""`make wheels`: one folder from which the course is installed without a network."""

import os
import subprocess
import sys

import pytest

from tests.environment.repository import ROOT
from tools import wheels


def test_all_that_a_learner_installs_is_asked_for_in_locked_versions(tmp_path):
    (course, build) = wheels.commands(tmp_path)
    assert "torch==2.13.0" in course and "jupyterlab==4.6.6" in course
    assert course[course.index("--constraint") + 1] == str(ROOT / "requirements.lock")
    assert "hatchling==1.33.0" in build
    assert not [word for word in course if word.startswith("nbgrader")]


def test_extras_are_added(tmp_path):
    assert "nbgrader==0.9.6" in wheels.commands(tmp_path, "classroom")[0]


def test_torch_comes_from_another_place_first_if_one_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_INDEX", "https://wheels.example/cpu")
    torch, course, _ = wheels.commands(tmp_path)
    assert torch[-3:] == ["--index-url", "https://wheels.example/cpu", "torch==2.13.0"]
    assert course[course.index("--find-links") + 1] == str(tmp_path)  # so that it is not taken once more


def test_an_unknown_extra_is_named(tmp_path):
    assert wheels.main([str(tmp_path), "laboratory"]) == "There is no extra 'laboratory'."


def test_a_download_that_fails_is_said(tmp_path, monkeypatch):
    def fails(command):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "check_call", fails)
    assert wheels.main([str(tmp_path)]).startswith("Not complete: `")


def test_without_a_folder_it_says_how_it_is_used():
    assert "FOLDER" in wheels.main([])


@pytest.mark.long
@pytest.mark.install
@pytest.mark.timeout(1800)
def test_the_course_is_installed_from_the_folder_alone(tmp_path):
    folder, target = tmp_path / "wheels", tmp_path / "environment"
    assert wheels.main([str(folder)]) == 0
    assert [file.name for file in folder.iterdir() if file.suffix != ".whl"] == []
    subprocess.run([sys.executable, "-m", "venv", target], check=True, timeout=300)
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_EXTRA_INDEX_URL": "",
               "PIP_CONFIG_FILE": os.devnull}  # fmt: skip
    command = [target / "bin" / "pip", "install", "--quiet", "--no-compile", "--constraint", wheels.LOCK,
               "--editable", ROOT]  # fmt: skip
    done = subprocess.run(command, env=offline, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    program = [target / "bin" / "course", "--version"]
    started = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert started.stdout.startswith("course ")
