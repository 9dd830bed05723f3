"""tools/environment.py installs when it must, and only then."""

import shutil
import subprocess
import sys
import venv

import pytest

from tools import environment


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of two files, whose installation is a virtual environment that can import `course_lib`."""
    (tmp_path / "pyproject.toml").write_text('[build-system]\n[project]\nname = "x"\n')
    (tmp_path / "requirements.lock").write_text("torch==2.13.0\n")
    monkeypatch.setattr(environment, "ROOT", str(tmp_path))
    monkeypatch.setattr(environment, "LOCK", str(tmp_path / "requirements.lock"))
    return Project(tmp_path, monkeypatch)


class Project:
    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch, self.installations = folder, monkeypatch, 0
        monkeypatch.setattr(environment, "install", self.install)

    def install(self, folder, extras):
        self.installations += 1
        venv.create(folder, clear=True)
        library = next((self.folder / ".venv").glob("lib/python3*/site-packages"))
        (library / "course_lib.py").touch()

    def make(self, *extras):
        self.monkeypatch.setattr(sys, "argv", ["environment.py", str(self.folder / ".venv"), *extras])
        return environment.main()


def test_the_second_call_installs_nothing(project):
    assert project.make() == project.make() == 0
    assert project.installations == 1


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.lock"])
def test_a_change_of_what_is_wanted_installs_again(project, name):
    project.make()
    path = project.folder / name
    path.write_text(path.read_text() + "version = '2'\n")
    project.make()
    assert project.installations == 2


def test_settings_of_tools_and_dates_of_files_install_nothing(project):
    project.make()
    path = project.folder / "pyproject.toml"
    path.write_text(path.read_text() + "[tool.ruff]\nline-length = 110\n")
    project.make()
    assert project.installations == 1


def test_other_extras_install_again(project):
    project.make()
    project.make("test")
    assert project.installations == 2


def test_a_lock_alone_does_not_need_the_course(project):
    lock = project.folder / "site.lock"
    lock.write_text("jupyter-book==1.0.4.post1\n")
    project.make("--only", str(lock))
    (project.folder / "requirements.lock").write_text("torch==2.14.0\n")
    project.make("--only", str(lock))
    assert project.installations == 1
    lock.write_text("jupyter-book==1.0.3\n")
    project.make("--only", str(lock))
    assert project.installations == 2


def test_a_moved_folder_installs_again(project, tmp_path_factory):
    project.make()
    moved = tmp_path_factory.mktemp("moved")
    shutil.move(project.folder / ".venv", moved / ".venv")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(project.folder / name, moved)
    project.folder = moved
    project.make()
    assert project.installations == 2


def test_a_removed_python_installs_again(project):
    project.make()
    (project.folder / ".venv" / "bin" / "python").unlink()
    project.make()
    assert project.installations == 2


@pytest.mark.parametrize("failure", [KeyboardInterrupt, subprocess.CalledProcessError(1, ["pip"])])
def test_an_installation_that_did_not_end_is_not_taken_for_one(project, failure):
    def fails(folder, extras):
        venv.create(folder)
        raise failure

    with project.monkeypatch.context() as patch:
        patch.setattr(environment, "install", fails)
        assert "again" in project.make()
    assert project.make() == 0
    assert project.installations == 1


def test_a_failing_reinstallation_leaves_no_good_stamp(project):
    """The old stamp must go before anything else does, even if what is wanted changes back."""
    project.make()
    folder = str(project.folder / ".venv")
    with project.monkeypatch.context() as patch:
        patch.setattr(subprocess, "check_call", lambda command: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            environment.make(folder)
    project.make()
    assert project.installations == 2


def test_a_folder_that_is_no_environment_is_left_alone(project):
    (project.folder / ".venv").mkdir()
    (project.folder / ".venv" / "thesis.txt").touch()
    with pytest.raises(SystemExit, match="move it away"):
        environment.make(str(project.folder / ".venv"))
    assert (project.folder / ".venv" / "thesis.txt").exists()


@pytest.mark.parametrize("version", [(3, 10, 1), (3, 15, 0)])
def test_a_python_that_does_not_fit_is_named(project, version):
    project.monkeypatch.setattr(sys, "version_info", version)
    assert f"{version[0]}.{version[1]}" in project.make()
    assert project.installations == 0
