"""Machines for tests, on one machine: each has its own network, host name and processes.

    with machines(3, folder) as (a, b, c):
        started = [machine.start(["torchrun", ...]) for machine in (a, b, c)]
        b.cut()    # its cable is pulled: packets are lost, and nobody is told
        b.kill()   # all its processes end at once

A machine is a set of namespaces, needs no root, and goes with its last process.  All processes on a machine
end with the first one, which ends with the test: a PID namespace and the parent-death signal see to that.
Network and cables are those of ``course_lib.links``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from course_lib import namespaces, processes
from course_lib.links import Links
from course_lib.ranks import network

_CLONE_NEWUTS, _CLONE_NEWPID = 0x04000000, 0x20000000  # from <linux/sched.h>
_SECONDS_TO_START = 30
_SECONDS_TO_DIE = 20
_SECONDS_TO_BE_ASKED = 120


class Started:
    """A command on a machine, with the processes that it starts."""

    def __init__(self, command: list[str], output: Path, folder: Path, environment: dict[str, str]):
        self._output = output
        with output.open("a") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=folder, env=environment)

    @property
    def output(self) -> str:
        """What all processes have written so far."""
        return self._output.read_text()

    @property
    def status(self) -> int | None:
        """The exit status, minus the signal's number for a command that was killed; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        wait_until(lambda: self.status is not None, seconds, "the end", [self])
        return self.status

    def signal(self, number: int, everyone: bool = False) -> None:
        """To the command itself, or also to all processes that it has started."""
        if (first := self._first()) is None:
            return
        for process in [first, *(first.children(recursive=True) if everyone else [])]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    @contextlib.contextmanager
    def held_until_it_is_asked_to_end(self, program: str) -> Iterator[None]:
        """The last processes that run ``program``, the ranks, stand still until SIGTERM waits for them."""
        held = [process for process in self._first().children(recursive=True)
                if program in process.cmdline() and not process.children()]  # fmt: skip
        assert held, f"{program} does not run\n{outputs([self])}"
        try:
            for process in held:
                process.suspend()
            yield
            wait_until(lambda: all(map(_is_asked_to_end, held)), _SECONDS_TO_BE_ASKED, "SIGTERM", [self])
        finally:
            for process in held:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def kill(self) -> None:
        """End the command and all that it has started, at once."""
        self.signal(signal.SIGKILL)
        try:
            self._process.wait(_SECONDS_TO_DIE)
        finally:
            self._process.kill()

    def _first(self) -> psutil.Process | None:
        """The machine's first process; None where it has ended."""
        until = time.monotonic() + _SECONDS_TO_START
        while self.status is None and time.monotonic() < until:
            with contextlib.suppress(psutil.NoSuchProcess):
                if found := psutil.Process(self._process.pid).children():
                    return found[0]
            time.sleep(0.01)
        return None


class Machine:
    """``name``: what it calls itself.  ``address``: where the others reach it."""

    def __init__(self, number: int, folder: Path, made: Path):
        self.name, self.address = f"machine-{number}", f"10.0.0.{number + 1}"
        self.folder = folder / self.name
        self.folder.mkdir(exist_ok=True)
        self._number, self._made, self._started = number, made, []

    def start(self, command: list[str], **environment: str) -> Started:
        """Start a command in the machine's own folder."""
        inside = in_child("run", self._made, self._number, self.name, *command)
        output = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        started = Started(inside, output, self.folder, {**os.environ, **environment})
        self._started.append(started)
        return started

    def kill(self) -> None:
        for started in self._started:
            started.kill()

    def cut(self) -> None:
        """Pull its cable out of the switch: what it sends, and what is sent to it, is lost."""
        self._at_switch("nomaster")

    def restore(self) -> None:
        self._at_switch("master", "hub")

    def set_tcp_retries(self, number: int) -> None:
        """How often a packet that nobody answers is sent again: 15 by default, which takes 16 minutes."""
        setting = "/proc/sys/net/ipv4/tcp_retries2"
        assert self.start(["sh", "-c", f"echo {number} > {setting}"]).wait(_SECONDS_TO_START) == 0

    def _at_switch(self, *what: str) -> None:
        answer = json.loads(self._made.read_text())
        enter = ["nsenter", f"--target={answer['holder']}", "--net"]
        enter += ["--user", "--preserve-credentials"] if answer["user"] else []
        ip = [namespaces.find_program("ip"), "link", "set", f"v{self._number}", *what]
        subprocess.run([*enter, *ip], check=True, timeout=namespaces.LIMIT)


@contextlib.contextmanager
def machines(count: int, folder: Path, rate: str = "1gbit") -> Iterator[list[Machine]]:
    """Machines at one switch, each with a cable of this rate; all processes on them end with the block."""
    asked, made = folder / "network.asked", folder / "network.made"
    network.write(asked, Links(rate).of_ranks(count))
    holder = subprocess.Popen(in_child("hold", asked, made))
    there = [Machine(number, folder, made) for number in range(count)]
    try:
        wait_until(made.exists, network.SECONDS_TO_MAKE, "the network")
        yield there
    finally:
        for machine in there:
            machine.kill()
        holder.kill()
        holder.wait(_SECONDS_TO_DIE)


def _is_asked_to_end(process: psutil.Process) -> bool:
    """Whether SIGTERM was sent to it and has not come to it yet; or it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
        status = Path(f"/proc/{process.pid}/status").read_text()
        pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
        return bool(pending >> (signal.SIGTERM - 1) & 1)
    return True


def wait_until(
    condition: Callable[[], object], seconds: float, what: str, watched: Sequence[Started] = ()
) -> None:
    """Raises AssertionError with the end of all outputs where it takes longer."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what} did not come within {seconds} s\n{outputs(watched)}")
        time.sleep(0.02)


def outputs(watched: Sequence[Started]) -> str:
    """The last lines of each, to show where a test fails."""
    return "\n".join(f"--- status {each.status}\n{each.output[-6000:]}" for each in watched)


def in_child(task: str, *arguments: object) -> list[str]:
    """The command of a child that does not outlive this process: "hold", "run", or "here", as it stands."""
    return [sys.executable, __file__, str(os.getpid()), task, *map(str, arguments)]


def _main(parent: str, task: str, *arguments: str) -> None:
    processes.end_with_parent(parent=int(parent))
    if task == "hold":
        network.hold(*map(Path, arguments))
    elif task == "here":
        os.execvp(arguments[0], arguments)
    _run(*arguments)


def _run(made: str, number: str, name: str, *command: str) -> None:
    """Become a machine, run a command there, and end as it ended."""
    network.enter(Path(made), int(number))
    namespaces.unshare(_CLONE_NEWUTS | _CLONE_NEWPID)
    socket.sethostname(name)
    child = os.fork()  # a PID namespace begins with the next child
    if child == 0:
        processes.end_with_parent()
        os.execvp(command[0], command)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        _die_of(-status)
    sys.exit(status)


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    _main(*sys.argv[1:])
