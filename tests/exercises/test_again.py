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
    """Three times each; `python -m tools.repeat_right_answers` does it fifty times, for an hour."""
    todo = again.checks([number], messages_only=True)
    ran, failed = again.repeat(todo, times=3, at_once=again.AT_ONCE)
    assert [ran[check] for check in todo] == [3] * len(todo)
    assert not failed


@pytest.mark.long
def test_no_process_outlives_a_run_that_is_killed(tmp_path):
    program = tmp_path / "checks.py"
    program.write_text(
        "import os, time\nfrom tools.repeat_right_answers import processes\n"
        "if __name__ == '__main__':\n    with processes(1) as pool:\n"
        "        pool.submit(os.getpid).result()\n"
        "        print('ready', flush=True)\n        time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": str(COURSE_ROOT)})  # fmt: skip
    assert process.stdout.readline() == b"ready\n"
    started = psutil.Process(process.pid).children(recursive=True)
    assert started
    process.kill()
    process.communicate()
    _, left = psutil.wait_procs(started, timeout=30)
    assert not left
