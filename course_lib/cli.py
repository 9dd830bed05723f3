"""The command `course`: finds the module behind a subcommand, and imports only that one.

The installed script, ``python -m course_lib`` and ``python -m course_lib.train`` come here.  What a
subcommand does, and its options, are in its own module: nothing here stands on torch.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from course_lib import __version__

# Each module has add_arguments(parser) and main(arguments), which returns the exit status: 0 if all is well.
COMMANDS = {
    "lab": ("course_lib.working_copy", "open JupyterLab on lesson 0, in your own copy of the course"),
    "doctor": ("course_lib.doctor", "say whether the course can run on this machine, and what to do"),
    "check": ("course_lib.classroom.check", "check the exercises in notebooks"),
    "solution": ("course_lib.classroom.solution", "show the solution of an exercise"),
    "run": ("course_lib.notebook_run", "run a notebook's cells on the ranks of torchrun"),
    "train": ("course_lib.train.command", "train a small language model on one rank or many"),
    "grade": ("course_lib.classroom.grade", "mark a class"),
    "predictions": ("course_lib.classroom.class_predictions", "draw a class's predictions"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status. Wrong usage ends with status 2, as argparse does."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command = argv[0] if argv else ""
    module = importlib.import_module(COMMANDS[command][0]) if command in COMMANDS else None
    parser, subparsers = build_parser()
    if module:
        module.add_arguments(subparsers[command])
    arguments = parser.parse_args(argv)
    if module is None:
        parser.print_help()
        return 2
    try:
        return module.main(arguments)
    except KeyboardInterrupt:
        return 130  # what a shell reports for a command that Ctrl-C ended
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        # Python flushes once more at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # likewise for SIGPIPE


def build_parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(prog="course", description="Distributed training, on your own machine.")
    parser.add_argument("--version", action="version", version=f"course {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    return parser, {
        name: commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        for name, (_, summary) in COMMANDS.items()
    }
