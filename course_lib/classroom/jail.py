"""A jail for a process that runs learners' code: bubblewrap, which makes Linux's namespaces.

Inside there is no network but a loopback interface of its own, no process but its own, and no file but
Python, the library and a scratch folder in memory; everything else can't be seen, and only the scratch folder
can be written.  Memory, processes, open files and sizes of files are limited.  When the jail ends, all
processes in it end.

The limit of processes counts those of a user, and does nothing for root.  So root starts each jail as a user
of its own, and everybody else can run one jail at a time.  Root's Python may lie where that user can't go:
then a first bubblewrap only lays out the files, and a second one, as that user, is the jail.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import course_lib
from course_lib import processes

READY = b"ready"
LENGTH_BYTES = 8  # before each message
HOME = "/home/learner"
_FIRST_USER = 64_000  # above those that systems give out, below those of containers
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives")
_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_TO_START, _SECONDS_TO_END = 120, 10
_MOST_SAID = 1 << 16


@dataclass(frozen=True)
class JailLimits:
    """``memory``: bytes of all processes together; ``address_space``: of each; ``scratch``: of files."""

    memory: int = 4 << 30
    address_space: int = 3 << 30  # torch takes 1 by itself
    processes: int = 300  # threads count, too; eight ranks have about a hundred
    scratch: int = 200 << 20
    open_files: int = 256


class NoJail(Exception):
    """A jail does not start, which is nothing that a learner did; str() says why."""


class JailEnded(Exception):
    """The jail is gone; str() says why.  ``is_late``: because of a limit of time."""

    def __init__(self, why: str, is_late: bool = False):
        super().__init__(why)
        self.is_late = is_late


def refusal() -> str | None:
    """None where jails are to be had; otherwise why not, and what to do."""
    if not sys.platform.startswith("linux"):
        return f"A jail needs Linux's namespaces; this is {sys.platform}."
    missing = [name for name in ("bwrap", "prlimit", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"A jail needs {' and '.join(missing)}: install bubblewrap and util-linux."
    command = _command(0, JailLimits(), ["true"])
    tried = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if tried.returncode == 0:
        return None
    said = tried.stderr.strip().splitlines() or ["it says nothing"]
    return f"bubblewrap can't make a jail here: {said[-1]}. Containers may forbid user namespaces."


def shown_with(path: Path) -> Path | None:
    """The folder that learners' code can read in which a path lies, if any does."""
    folders = {folder.resolve() for folder in (*map(Path, _SYSTEM), *_python_folders())}
    return next((folder for folder in sorted(folders) if path.resolve().is_relative_to(folder)), None)


def framed(message: bytes) -> bytes:
    """A message as it is sent, in both directions: its length, and itself."""
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


def most_at_once() -> int | None:
    """How many jails can run side by side without counting each other's processes; None: any number."""
    return None if os.geteuid() == 0 else 1


class Jail:
    """One process in a jail, which says b"ready" and then answers messages.

    ``number``: another one for each jail that runs at the same time.  Raises NoJail if it does not start.
    """

    def __init__(self, arguments: Sequence[str], number: int, limits: JailLimits, is_jailed: bool = True):
        self._limits = limits
        command = [sys.executable, *arguments]
        if is_jailed:
            command = _command(number, limits, command)
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()
        # A socket, since what opens a pipe through /proc could read from it, or write into it.
        self._process = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=self._said,
            start_new_session=True, env={**os.environ, "PYTHONPATH": str(_library().parent)},
        )  # fmt: skip
        theirs.close()
        self._socket = ours
        try:
            self._receive(len(READY), time.monotonic() + _SECONDS_TO_START)
        except JailEnded as ended:
            raise NoJail(f"No jail could be started. {ended}") from None

    def ask(self, message: bytes, seconds: float, most: int) -> bytes:
        """The answer to a message; raises JailEnded, also if it has more than ``most`` bytes."""
        until = time.monotonic() + seconds
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(framed(message))
            size = int.from_bytes(self._receive(LENGTH_BYTES, until), "big")
            if size > most:
                raise self._ended(f"An answer of {size:,} bytes came out of the jail.")
            return self._receive(size, until)
        except OSError:
            raise self._ended(self._last_words()) from None

    def close(self) -> None:
        """End it, with all that is in it."""
        self._socket.close()
        self._said.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)

    def _receive(self, size: int, until: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            if time.monotonic() > until:
                raise self._ended("The jail did not answer in time.", is_late=True)
            if select.select([self._socket], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
                part = self._socket.recv(min(size - len(received), 1 << 20))
                if not part:
                    raise self._ended(self._last_words())
                received += part
            elif (used := self._memory()) > self._limits.memory:
                raise self._ended(f"It used {used / 2**30:.1f} GiB of memory; the limit is "
                                  f"{self._limits.memory / 2**30:g} GiB.")  # fmt: skip
        return bytes(received)

    def _memory(self) -> int:
        """Bytes of all its processes together."""
        pids = [self._process.pid, *processes.descendants(self._process.pid)]
        return sum(map(processes.proportional_bytes, pids))

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        self._said.seek(0)
        lines = self._said.read(_MOST_SAID).decode(errors="replace").strip().splitlines()
        return f"The process in the jail ended: {lines[-1]}" if lines else "The process in the jail ended."

    def _ended(self, why: str, is_late: bool = False) -> JailEnded:
        self.close()
        return JailEnded(why, is_late)


def _command(number: int, limits: JailLimits, command: Sequence[str]) -> list[str]:
    """The command that runs ``command`` in a jail."""
    files = _files()
    limited = [
        "prlimit", f"--nproc={limits.processes + _processes_of_user()}", f"--as={limits.address_space}",
        f"--fsize={limits.scratch}", f"--nofile={limits.open_files}", "--core=0",
    ]  # fmt: skip
    scratch = str(limits.scratch)
    jail = [
        "bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
        "--as-pid-1", "--clearenv",
        *_settings(),
        "--proc", "/proc", "--dev", "/dev", "--size", scratch, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
        # Before the files, since Python may lie in one of them.
        "--size", scratch, "--tmpfs", "/tmp", "--size", scratch, "--tmpfs", HOME, *files,
        "--chdir", HOME, "--remount-ro", "/", "--", *command,
    ]  # fmt: skip
    if os.geteuid() != 0:
        return [*limited, *jail]
    user = str(_FIRST_USER + number)
    laid_out = ["bwrap", "--die-with-parent", *files, "--dev-bind", "/dev", "/dev",
                "--bind", "/proc", "/proc", "--perms", "0755", "--dir", "/tmp", "--"]  # fmt: skip
    as_user = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs",
               "--pdeathsig", "KILL"]  # fmt: skip
    return [*laid_out, *as_user, *limited, *jail]


def _processes_of_user() -> int:
    """Those that root's jails count besides their own: none."""
    if os.geteuid() == 0:
        return 0
    tasks = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.geteuid():
                tasks += len(list((process / "task").iterdir()))
    return tasks


def _settings() -> Iterator[str]:
    """Environment variables: none of the marker's."""
    settings = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": HOME,
        "USER": "learner",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(_library().parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Else what a learner leaves in the home folder would run in the next start of Python.
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
    }
    for name, value in settings.items():
        yield from ("--setenv", name, value)


def _files() -> list[str]:
    """Arguments that make the system's files, Python and the library readable where they are."""
    system = [Path(name) for name in _SYSTEM if os.path.lexists(name)]
    shown = system + [path for path in _python_folders() if not path.is_relative_to("/usr")]
    arguments: list[str] = []
    parents = {parent for path in shown for parent in path.parents if str(parent) != "/"}
    for parent in sorted(parents):  # else root's bubblewrap would make them for root alone
        arguments += ["--perms", "0755", "--dir", str(parent)]
    for path in shown:
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        else:
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _python_folders() -> list[Path]:
    """Python, its environment with the packages, and the library: without exercises and their solutions."""
    folders = {Path(sys.base_prefix), Path(sys.prefix), _library()}
    return [path for path in folders if not folders & set(path.parents)]


def _library() -> Path:
    return Path(course_lib.__file__).resolve().parent
