"""The command `course` itself: quick, and only with what a command needs."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from course_lib import cli


def course(*arguments):
    command = [sys.executable, "-m", "course_lib", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_every_command_is_there_and_keeps_the_contract():
    for module, summary in cli.COMMANDS.values():
        assert find_spec(module), module
        loaded = __import__(module, fromlist=["main"])
        assert callable(loaded.add_arguments) and callable(loaded.main)
        assert summary


def test_help_lists_the_commands():
    done = course("--help")
    assert done.returncode == 0 and done.stderr == ""
    for command in cli.COMMANDS:
        assert command in done.stdout


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_has_help(command):
    done = course(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: course " + command in done.stdout


def test_no_command_and_an_unknown_one_end_with_status_2():
    assert course().returncode == 2
    assert course("teach").returncode == 2


def modules_after(statement):
    code = f"{statement}\nimport sys; print(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


def test_importing_the_library_imports_nothing_heavy():
    loaded = modules_after("import course_lib")
    assert loaded - modules_after("pass") == {"course_lib"}


def test_help_imports_no_torch_and_no_command():
    loaded = modules_after("from course_lib import cli; cli.build_parser()")
    assert not loaded & {"torch", "numpy", "matplotlib", "course_lib.doctor"}


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m course_lib doctor | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1 and done.stderr == ""
