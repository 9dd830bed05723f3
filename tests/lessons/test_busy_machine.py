"""Where a machine is busy, lessons show recorded points in place of their own, and get through."""

import json
import subprocess
import sys

import pytest

from tests.environment.repository import ROOT


def code_of(lesson):
    cells = json.loads(lesson.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


MEASURING = [lesson for lesson in sorted((ROOT / "notebooks").glob("*.ipynb"))
             if any("measurements.Series(" in code for code in code_of(lesson))]  # fmt: skip
RUN = """
import json, sys
from course_lib import measurements

measurements.CALM = -1  # no spread of repeats is small enough
names = {"__name__": "__main__", "display": lambda *shown: None}
for number, code in enumerate(json.load(sys.stdin)):
    exec(compile(code, f"code cell {number}", "exec"), names)
"""


@pytest.mark.long
@pytest.mark.parametrize("lesson", MEASURING, ids=lambda path: path.stem)
def test_recorded_points_are_there_for_all_that_is_measured(lesson, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(code_of(lesson)), cwd=tmp_path, timeout=400,
        capture_output=True, text=True)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "recorded on" in run.stdout
