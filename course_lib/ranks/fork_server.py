"""Starting ranks fast: a server process that has torch imported, and forks itself for each rank.

Importing torch takes seconds, forking takes milliseconds.  The server is a child of the notebook's kernel
and the parent of all ranks.  It has one thread and never touches a GPU, since neither survives a fork.

Nothing outlives the kernel: the server ends when the kernel's end of their socket closes or the kernel is
no longer its parent, and takes all ranks with it.  It also adopts what ranks leave behind (Linux's child
subreaper), so grandchildren that detached themselves are ended, too.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from course_lib import processes
from course_lib.ranks import network
from course_lib.ranks.errors import RanksError
from course_lib.ranks.logbook import note_exit
from course_lib.ranks.run_files import RunFiles, import_path

_SECONDS_TO_ANSWER = 120  # importing torch from a cold network disk
_SECONDS_TO_END = 5
_SECONDS_UNTIL_IDLE = 2
_SECONDS_BETWEEN_LOOKS_BUSY, _SECONDS_BETWEEN_LOOKS_IDLE = 0.005, 0.5
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36  # from <linux/prctl.h>
SEALED = "COURSE_RANKS_ARE_SEALED"  # set: neither the server nor ranks can be looked into by the same user
# What torch itself imports in seconds, at the first optimizer or the first call of torch.func.
IMPORTED_LATE = ("torch._dynamo",)


def can_fork() -> bool:
    """Linux only: forking a process with torch in it is not safe on macOS, and Windows can't fork."""
    return sys.platform == "linux"


class ForkServer:
    """The kernel's side."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        ours.settimeout(_SECONDS_TO_ANSWER)
        start = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
        start += "from course_lib.ranks.fork_server import serve; serve(int(sys.argv[2]), int(sys.argv[3]))"
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, json.dumps(import_path()), str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # gloo writes lines with times and ports about closed connections; reports say it better.
            env={**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL"},
            start_new_session=True,  # what interrupts or ends the kernel's group must not reach the ranks
        )
        theirs.close()
        self._socket = ours
        self._lines = ours.makefile("r", encoding="utf-8")
        self._lock = threading.Lock()
        self._requests = 0
        self._imported: set[str] = set()
        try:
            self.folder = Path(self._receive(0)["folder"])
        except BaseException:  # interrupted, say: nobody else knows of the process yet
            self._lines.close()
            self._socket.close()
            self._process.kill()
            self._process.wait()
            raise
        atexit.register(self.close)

    @property
    def is_usable(self) -> bool:
        """Not after the server died, nor in a forked copy of the kernel."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def import_beforehand(self, modules: Iterable[str]) -> None:
        """Import those that were not asked for before."""
        new = set(modules) - self._imported
        if new:
            self._ask({"import": sorted(new)})
            self._imported |= new

    def start(self, folder: Path, ranks: int) -> None:
        """Start ranks that find all they need in the folder."""
        self._ask({"start": str(folder), "ranks": ranks})

    def dump_stacks(self, folder: Path) -> None:
        """Have each rank of that folder write its stack to its file, also while it is busy in C++."""
        self._ask({"stacks": str(folder)})

    def end(self, folder: Path) -> None:
        """End the ranks of that folder and all that they started; returns when they are gone."""
        if self.is_usable:  # else they are gone already
            self._ask({"end": str(folder)})

    def close(self) -> None:
        """End the server, with all ranks and files."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        self._lines.close()
        self._socket.close()  # the server sees this, ends the ranks and removes the folder
        try:
            self._process.wait(_SECONDS_TO_ANSWER)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its ranks die with it
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # if the server was killed it is still there

    def _ask(self, request: dict) -> None:
        with self._lock:
            self._requests += 1
            try:
                self._socket.sendall(json.dumps({**request, "number": self._requests}).encode() + b"\n")
                self._receive(self._requests)
            except OSError:
                self.close()
                raise RanksError("The process that starts ranks does not answer. Run it again.") from None

    def _receive(self, number: int) -> dict:
        """The answer to a request; answers to earlier ones, whose wait was interrupted, are passed over."""
        while True:
            line = self._lines.readline()
            answer = json.loads(line) if line else {"error": "it ended"}
            if "error" in answer:
                raise RanksError(f"The process that starts ranks failed: {answer['error']}")
            if answer["number"] == number:
                return answer


def serve(descriptor: int, kernel: int) -> NoReturn:
    """The server's whole life."""
    channel = socket.socket(fileno=descriptor)
    try:
        server = _Server(channel, kernel)
    except Exception as error:
        channel.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        sys.exit(1)
    server.run()
    sys.exit(0)


class _Server:
    def __init__(self, channel: socket.socket, kernel: int):
        processes.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if SEALED in os.environ:
            seal()
        # Imported before any fork; if this fails the kernel is told, since ranks would be slow in silence.
        from course_lib.ranks import rank_process

        self._main = rank_process.main
        self._channel, self._kernel = channel, kernel
        # pid -> folder, rank; None is the process that holds the links between them
        self._ranks: dict[int, tuple[str, int | None]] = {}
        self._folder = tempfile.mkdtemp(prefix="course-ranks-")
        gc.freeze()  # so that collecting garbage in a rank does not copy the server's memory
        try:
            self._answer({"number": 0, "folder": self._folder})
        except OSError:  # the kernel was killed meanwhile
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._idle_since, self._has_imported_more = time.monotonic(), False

    def run(self) -> None:
        try:
            buffer = b""
            while os.getppid() == self._kernel:
                self._reap()
                wait = _SECONDS_BETWEEN_LOOKS_BUSY if self._ranks else _SECONDS_BETWEEN_LOOKS_IDLE
                if not select.select([self._channel], [], [], wait)[0]:
                    self._import_more_if_idle()
                    continue
                received = self._channel.recv(65536)
                if not received:
                    break
                *lines, buffer = (buffer + received).split(b"\n")
                for line in lines:
                    self._do(json.loads(line))
        finally:
            self._end(set(self._ranks))
            shutil.rmtree(self._folder, ignore_errors=True)

    def _import_more_if_idle(self) -> None:
        """While the learner reads."""
        is_idle = not self._ranks and time.monotonic() - self._idle_since > _SECONDS_UNTIL_IDLE
        if self._has_imported_more or not is_idle:
            return
        _import(IMPORTED_LATE)
        self._has_imported_more = True

    def _do(self, request: dict) -> None:
        if "start" in request:
            self._start(request["start"], request["ranks"])
        elif "import" in request:
            _import(request["import"])
        elif "stacks" in request:
            for pid in self._ranks_of(request["stacks"]):
                if self._ranks[pid][1] is not None:
                    _kill(pid, signal.SIGUSR1)
        else:
            self._end(self._ranks_of(request["end"]))
        self._idle_since = time.monotonic()
        self._answer({"number": request["number"]})

    def _start(self, folder: str, ranks: int) -> None:
        has_links = RunFiles(Path(folder)).links.exists()
        for rank in (None, *range(ranks)) if has_links else range(ranks):
            self._ranks[self._fork(folder, rank)] = (folder, rank)

    def _ranks_of(self, folder: str) -> set[int]:
        return {pid for pid, (its_folder, _) in self._ranks.items() if its_folder == folder}

    def _answer(self, answer: dict) -> None:
        self._channel.sendall(json.dumps(answer).encode() + b"\n")

    def _fork(self, folder: str, rank: int | None) -> int:
        server = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            processes.end_with_parent(parent=server)
            self._channel.close()
            atexit._clear()
            if rank is None:
                files = RunFiles(Path(folder))
                network.hold(files.links, files.network)
            self._become_rank(Path(folder), rank)
        finally:
            os._exit(1)

    def _become_rank(self, folder: Path, rank: int) -> None:
        output = os.open(RunFiles(folder).output(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        self._main(folder, rank)

    def _reap(self) -> None:
        """Note how ranks ended; forget others' ends."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note_end(pid, status)

    def _note_end(self, pid: int, status: int) -> None:
        folder, rank = self._ranks.pop(pid, ("", None))
        if rank is not None:
            note_exit(RunFiles(Path(folder)).logbook(rank), os.waitstatus_to_exitcode(status))

    def _end(self, pids: set[int]) -> None:
        for pid in pids:
            _kill(-pid)  # its session's process group, with what it started
            _kill(pid)
        until = time.monotonic() + _SECONDS_TO_END
        while pids & set(self._ranks) and time.monotonic() < until:
            self._reap()
            time.sleep(0.001)
        if not self._ranks:
            self._end_adopted(until)

    def _end_adopted(self, until: float) -> None:
        """End what ranks left behind; each may leave children of its own."""
        while time.monotonic() < until:
            adopted = processes.children().get(os.getpid(), [])
            if not adopted:
                return
            for pid in adopted:
                _kill(pid)
            self._reap()
            time.sleep(0.001)


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        with contextlib.suppress(Exception):  # it may not exist; a rank that needs it says what is wrong
            importlib.import_module(module)
    gc.freeze()


def seal() -> None:
    """Others of the same user can't trace this process, nor read its memory; those it forks inherit that."""
    processes.prctl(_PR_SET_DUMPABLE, 0)


def _kill(pid: int, sign: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, sign)
