"""A process that must not outlive who started it."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
CHILD = "import sys; from course_lib.processes import end_with_parent\n"
CHILD += "end_with_parent(parent=int(sys.argv[1])); print('goes on')"


@pytest.mark.parametrize(("is_there", "status", "shown"), [
    (True, 0, "goes on\n"), (False, -signal.SIGKILL, ""),
])  # fmt: skip
def test_it_ends_at_once_where_its_parent_is_gone_already(is_there, status, shown):
    parent = os.getpid() if is_there else os.getppid()  # started by that one, and taken over by this one
    done = subprocess.run([sys.executable, "-c", CHILD, str(parent)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, shown)
