"""``course check NOTEBOOK…``: are a learner's answers right?

The answers are put into the exercise's master, and nbval runs that: stored outputs, changed check cells and
what else a learner's notebook holds have no effect.  The answers run as the learner, with the learner's
rights, so this is for learners' own use; marks need more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from course_lib.classroom.marks import totals
from course_lib.classroom.submission import MASTERS, Unusable, check_cells, fill_master

SECONDS = 300
_SECONDS_FOR_A_CELL = 120
_SECONDS_TO_END = 10
_INTERRUPT = signal.SIGINT if os.name != "nt" else signal.SIGTERM


@dataclass(frozen=True)
class Part:
    """One check cell: ``status`` is pass, wrong, not yet, error or not run."""

    name: str
    points: float
    most_points: float
    status: str
    message: str = ""


@dataclass(frozen=True)
class Result:
    """One notebook.  ``remarks`` say what was odd about it."""

    notebook: str
    exercise: str | None = None
    parts: list[Part] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return bool(self.parts) and all(part.status == "pass" for part in self.parts)

    @property
    def points(self) -> float:
        return sum(part.points for part in self.parts)

    @property
    def most_points(self) -> float:
        return sum(part.most_points for part in self.parts)


def check(path: Path, seconds: float = SECONDS, masters: Path = MASTERS) -> Result:
    """Check one notebook, in at most about so many seconds."""
    try:
        filled = fill_master(path, masters)
    except Unusable as problem:
        return Result(str(path), remarks=[str(problem)])
    seen, ended = _validate(filled.notebook, seconds)
    remarks = [*filled.remarks, *_errors_in_answers(filled.notebook, seen)]
    if not ended:
        remarks.append(f"It was ended after {seconds:g} s.")
    parts = [_part(name, points, seen.get(name)) for name, points in check_cells(filled.notebook).items()]
    return Result(str(path), filled.exercise, parts, remarks)


def _validate(notebook: dict, seconds: float) -> tuple[dict[str, dict], bool]:
    """Run a notebook under nbval: what was seen in each graded cell, and whether it came to its end."""
    with tempfile.TemporaryDirectory(prefix="course-check-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # Plain ASCII, since an answer may hold characters that no encoding can write.
        (folder / "exercise.ipynb").write_text(json.dumps(notebook))
        (folder / "pytest.ini").write_text("[pytest]\n")  # no settings from folders above
        report = folder / "report"
        report.touch()
        ended = _run(_command(report), folder, seconds)
        seen = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    return {cell["grade_id"]: cell for cell in seen}, ended


def _command(report: Path) -> list[str]:
    return [
        sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "exercise.ipynb", "--quiet",
        "--nbval-cell-timeout", str(_SECONDS_FOR_A_CELL), "--course-report", str(report),
        "-p", "nbval.plugin", "-p", "course_lib.classroom.nbval_report", "-p", "no:cacheprovider",
    ]  # fmt: skip


def _run(command: list[str], folder: Path, seconds: float) -> bool:
    """Run a command quietly; False if it had to be ended."""
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        # The learner's own IPython settings and running notebooks are left alone.
        "IPYTHONDIR": str(folder),
        "JUPYTER_RUNTIME_DIR": str(folder),
    }
    silent: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(command, cwd=folder, env=environment, **silent)
    with _ended_at_last(process):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return True
    return False


@contextlib.contextmanager
def _ended_at_last(process: subprocess.Popen) -> Iterator[None]:
    """However this is left, end the process; asked politely it ends its kernel, which ends its ranks."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(_INTERRUPT)
            try:
                process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()  # its kernel notices within a second
                process.wait()


def _errors_in_answers(notebook: dict, seen: dict[str, dict]) -> list[str]:
    checks = check_cells(notebook)
    return [
        f"The answer cell {name} does not run: {cell['error']}"
        for name, cell in seen.items()
        if name not in checks and cell["error"]
    ]


def _part(name: str, most: float, cell: dict | None) -> Part:
    """What a check cell's value, text and error come to."""
    if cell is None:
        return Part(name, 0.0, most, "not run", "It was not reached.")
    if cell["error"]:
        return Part(name, 0.0, most, "error", cell["error"])
    value = cell["value"]
    if value is None or not 0.0 <= value <= most:
        return Part(name, 0.0, most, "error", "The check did not end in its share: see the answer cells.")
    text = cell["text"].strip()
    if value == most and not cell["as_expected"]:
        return Part(name, 0.0, most, "error", "The check's text is not that of a right answer.\n" + text)
    if value == most:
        return Part(name, value, most, "pass")
    return Part(name, value, most, "not yet" if ": not yet." in text else "wrong", text)


def report(result: Result) -> str:
    """A result as a learner reads it."""
    title = result.notebook + (f" (exercise {result.exercise})" if result.exercise else "")
    lines = [title, *(f"  {remark}" for remark in result.remarks)]
    width = max((len(part.name) for part in result.parts), default=0)
    for part in result.parts:
        lines.append(f"  {part.name:<{width}}  {part.points:g} of {part.most_points:g}  {part.status}")
        lines += [f"      {line}".rstrip() for line in part.message.splitlines()]
    if result.parts:
        lines.append(f"  {result.points:g} of {result.most_points:g} points")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``course check``."""
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK", help="exercises to check")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit for each notebook")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Check notebooks one after the other; 0 only if all are right."""
    results = []
    for path in arguments.notebooks:
        results.append(check(path, arguments.seconds))
        if not arguments.json:
            print(report(results[-1]), flush=True)
    if arguments.json:
        print(json.dumps([asdict(result) | totals(result) for result in results]))
    return 0 if all(result.is_right for result in results) else 1
