"""A right answer is right each time, on a machine that is busy with something else, too."""

import os
import subprocess
import sys

import psutil
import pytest

from course_lib.working_copy import COURSE_ROOT
from tools import repeat_right_answers as again


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("number", ["00", "02", "03"])
def test_right_answers_pass_again_and_again_on_a_loaded_machine(number):
    """Three times each; `python -m tools.repeat_right_answers` does it fifty times, for hours."""
    todo = again.checks([number], messages_only=True)
    with again.busy(2):
        ran, failed = again.repeat(todo, times=3)
    assert [ran[check] for check in todo] == [3] * len(todo)
    assert not failed


@pytest.mark.long
def test_no_loop_outlives_a_run_that_is_killed(tmp_path):
    program = tmp_path / "busy.py"
    program.write_text(
        "import time\nfrom tools.repeat_right_answers import busy\n"
        "if __name__ == '__main__':\n    with busy(1):\n"
        "        print('busy', flush=True)\n        time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": str(COURSE_ROOT)})  # fmt: skip
    assert process.stdout.readline() == b"busy\n"
    loops = psutil.Process(process.pid).children(recursive=True)
    assert loops
    process.kill()
    process.communicate()
    _, left = psutil.wait_procs(loops, timeout=30)
    assert not left
