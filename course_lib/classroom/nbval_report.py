"""A pytest plugin: writes down what nbval saw in each graded cell, for ``course check``."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest


def pytest_addoption(parser) -> None:
    parser.addoption("--course-report", metavar="FILE", help="what was seen in graded cells, as JSON lines")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """nbval waits for a kernel that has died until its limit; here it ends at once."""
    over = threading.Event()
    threading.Thread(target=_end_with_kernel, args=(item, over), daemon=True).start()
    yield
    over.set()


def _end_with_kernel(item, over: threading.Event) -> None:
    while not over.wait(0.5):
        if not item.parent.kernel.is_alive():
            _write(item, as_expected=False, value=None, text="", error="it ended Python itself")
            os._exit(1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """One line for each graded cell, at once, so that a time limit loses nothing."""
    report = (yield).get_result()
    if call.when == "call":
        outputs = item.test_outputs or []
        _write(
            item,
            as_expected=report.outcome == "passed",
            value=_value(outputs),
            text="".join(map(_text, outputs)),
            error=_error(outputs) or _failure(report, call, outputs),
        )


def _write(item, **seen) -> None:
    grade_id = item.cell.metadata.get("nbgrader", {}).get("grade_id")
    if grade_id is not None:
        with Path(item.config.getoption("--course-report")).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"grade_id": grade_id, **seen}) + "\n")


def _text(output) -> str:
    """What was printed, and the words that stand for a picture."""
    if output.output_type == "display_data":
        return f"\n{output.data.get('text/plain', '')}\n"
    return output.text if output.get("name") == "stdout" else ""


def _value(outputs) -> float | None:
    """The number that a cell ends in, as nbgrader reads it."""
    for output in outputs:
        if output.output_type == "execute_result":
            try:
                return float(output.data["text/plain"])
            except (KeyError, ValueError):
                return None
    return None


def _error(outputs) -> str | None:
    for output in outputs:
        if output.output_type == "error":
            return f"{output.ename}: {output.evalue}".strip()
    return None


def _failure(report, call, outputs) -> str | None:
    """For a cell that ended without any output: a limit, or a kernel that died."""
    if report.outcome == "passed" or outputs or call.excinfo is None:
        return None
    return str(call.excinfo.value).splitlines()[0]
