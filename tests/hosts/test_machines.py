"""Machines for tests: what is cut off is silent, and nothing is left of them, however a test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from tests.hosts.machines import machines, wait_until
from tests.hosts.training import ENVIRONMENT
from tests.links.test_between_ranks import without_rights

SECONDS = 30
HEARS = """
import socket
with socket.create_server(("", 5000)) as server:
    server.settimeout(30)
    connection, _ = server.accept()
for limit in (30, 2, 30):
    connection.settimeout(limit)
    try:
        print(connection.recv(5).decode(), flush=True)
    except TimeoutError:
        print("silence", flush=True)
print(socket.gethostname())
"""
SAYS = """
import socket, sys, time
for _ in range(100):
    try:
        connection = socket.create_connection((sys.argv[1], 5000), 3)
        break
    except OSError:
        time.sleep(0.1)
connection.sendall(b"first")
sys.stdin = open(sys.argv[2])  # a pipe: waits until there is somebody who writes
connection.sendall(b"later")
time.sleep(60)
"""


def test_what_is_cut_off_is_silent_and_comes_when_it_is_restored(real_links, tmp_path):
    os.mkfifo(go_on := tmp_path / "go on")
    with machines(2, tmp_path) as (one, other):
        hears = one.start([sys.executable, "-c", HEARS])
        says = other.start([sys.executable, "-c", SAYS, one.address, str(go_on)])
        wait_until(lambda: "first" in hears.output, SECONDS, "the first word", [hears, says])
        other.cut()
        go_on.write_text("")
        wait_until(lambda: "silence" in hears.output, SECONDS, "silence", [hears, says])
        other.restore()
        assert hears.wait(SECONDS) == 0
        assert hears.output.split() == ["first", "silence", "later", "machine-0"]
        says.kill()
        assert says.status == -signal.SIGKILL


def sleepers(mark: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if process.info["cmdline"] == ["sleep", mark]]


def test_all_processes_of_a_machine_end_at_once(real_links, tmp_path):
    mark = f"987654.{os.getpid()}"  # seconds, which nobody else sleeps
    with machines(1, tmp_path) as (machine,):
        machine.start(["sh", "-c", f"setsid sleep {mark} & sleep {mark}"])
        wait_until(lambda: len(sleepers(mark)) == 2, SECONDS, "two sleepers")
        machine.kill()
        assert sleepers(mark) == []


CRASHES = """
import os, pathlib, sys, time
from tests.hosts.machines import machines
folder, mark = pathlib.Path(sys.argv[1]), sys.argv[2]
with machines(2, folder) as there:
    for machine in there:
        machine.start(["sh", "-c", f"setsid sleep {mark} & sleep {mark}"])
    sys.stdin.read(1)
    os.abort()
"""


@pytest.mark.long
def test_nothing_is_left_when_a_test_crashes(real_links, tmp_path):
    mark = f"876543.{os.getpid()}"
    command = [sys.executable, "-c", CRASHES, str(tmp_path), mark]
    crashing = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})
    try:
        wait_until(lambda: len(sleepers(mark)) == 4, SECONDS, "four sleepers")
        below = psutil.Process(crashing.pid).children(recursive=True)
        assert len(below) >= 7  # who holds the network; for each machine one outside and two or more inside
        crashing.communicate(b"x", timeout=SECONDS)
        _, left = psutil.wait_procs(below, timeout=SECONDS)
        assert left == []
    finally:
        crashing.kill()


@pytest.mark.long
def test_machines_need_no_rights(real_links, tmp_path):
    script = """
        import pathlib, tempfile
        from tests.hosts.machines import machines
        with machines(2, pathlib.Path(tempfile.mkdtemp())) as (one, other):
            other.cut()
            other.restore()
            started = one.start(["hostname"])
            print(started.wait(30), started.output)
        """
    done = without_rights(textwrap.dedent(script), tmp_path)
    assert done.stdout.split() == ["0", "machine-0"], done.stderr
