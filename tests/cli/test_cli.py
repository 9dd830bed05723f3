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
def test_each_command_has_help(command, capsys):
    try:
        status = cli.main([command, "--help"])
    except SystemExit as ended:  # argparse's own way
        status = ended.code
    output = capsys.readouterr()
    assert (status, output.err) == (0, "")
    assert f"usage: course {command}" in output.out
    assert cli.COMMANDS[command][1][1:] in " ".join(output.out.split())  # names keep their capitals


def test_no_command_and_an_unknown_one_end_with_status_2(capsys):
    assert cli.main([]) == 2
    with pytest.raises(SystemExit) as ended:
        cli.main(["teach"])
    assert ended.value.code == 2 and "teach" in capsys.readouterr().err


def modules_after(statement):
    code = f"{statement}\nimport sys; print(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


def test_importing_the_library_imports_nothing_heavy():
    loaded = modules_after("import course_lib")
    assert loaded - modules_after("pass") == {"course_lib"}


def test_help_imports_no_torch_and_no_command():
    loaded = modules_after("from course_lib import cli; cli.build_parser()")
    assert not loaded & {"torch", "numpy", "matplotlib", "course_lib.doctor"}


TALKS = """
import sys, types
from course_lib import cli

def main(arguments):
    for number in range(100_000):
        print(number)
    return 0

sys.modules["talks"] = types.SimpleNamespace(main=main, add_arguments=lambda parser: None)
cli.COMMANDS["talk"] = ("talks", "print much")
sys.exit(cli.main(["talk"]))
"""


def test_a_reader_that_stops_early_is_no_error():
    command = [sys.executable, "-c", TALKS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as talker:
        assert talker.stdout.readline() == "0\n"
        talker.stdout.close()
        assert talker.stderr.read() == ""
        assert talker.wait(30) == 141


def test_ctrl_c_ends_a_command_without_a_traceback(monkeypatch):
    def main(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("course_lib.doctor.main", main)
    assert cli.main(["doctor"]) == 130
