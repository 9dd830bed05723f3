"""The first process in a jail: starts ranks for the marker, and never runs a learner's code itself.

A request is pickled by the marker, who is trusted; an answer is JSON (``wire``).  The text of a learner's
answer cells runs in ranks only, in each of them anew.  A rank gets its own arguments and no others: they lie
in a file that it deletes before any of the learner's code runs, and no process in the jail can look into the
memory of another one.  So what a rank does not know from its own arguments, another rank has told it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.checks import playing
from course_lib.classroom import answers, system_calls, wire
from course_lib.classroom.jail import LENGTH_BYTES, READY, framed
from course_lib.ranks import launch
from course_lib.ranks.fork_server import SEALED, can_fork, seal
from course_lib.ranks.watching import Limits

LOOKING = Limits(without_progress=10, total=20)


class Cells(NamedTuple):
    """What a learner's notebook runs: the master's imports, and the text of answer cells by name."""

    imports: str
    answers: Mapping[str, str]


class Look(NamedTuple):
    """Run the cells, and say which names are functions."""

    cells: Cells
    names: Sequence[str]


class Play(NamedTuple):
    """Run a function on several ranks: ``function`` is pickled and may hold ``Learners`` functions."""

    cells: Cells
    function: bytes
    calls: Sequence[Sequence[playing.Call]]  # calls[rank]
    limits: Limits


class Learners:
    """The learner's function of this name, wherever it is unpickled."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self._name} runs in the jail only")

    def __reduce__(self) -> tuple:
        return _learners, (self._name,)


_defined: dict[str, Any] = {}  # by the cells, in this rank


def _learners(name: str) -> Any:
    return _defined[name]


def main() -> None:
    """Answer one request after the other from the socket that is the standard input, until it is closed."""
    if can_fork():
        seal()
        os.environ[SEALED] = "1"
    is_jailed = os.getpid() == 1
    if is_jailed:
        system_calls.forbid()
    channel = socket.socket(fileno=0)
    channel.sendall(READY)
    while size := int.from_bytes(_receive(channel, LENGTH_BYTES), "big"):
        request = pickle.loads(_receive(channel, size))
        if is_jailed:
            _end_what_is_left()
        channel.sendall(framed(json.dumps(_answer(request)).encode()))


def _end_what_is_left() -> None:
    """End what has outlived its run, since it could read the arguments of all ranks in the next one.

    It can: whoever ends the process that starts ranks is no longer ended by it.
    """
    alone = {os.getpid(), launch.starter_process()}
    while {int(entry) for entry in os.listdir("/proc") if entry.isdigit()} - alone:
        # Everything but this process, also the one that starts ranks; at once, or a process that forks
        # again and again would be missed.
        os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def _receive(channel: socket.socket, size: int) -> bytes:
    """So many bytes, or none after the end."""
    received = bytearray()
    while len(received) < size:
        part = channel.recv(min(size - len(received), 1 << 20))
        if not part:
            return b""
        received += part
    return bytes(received)


def _answer(request: Look | Play) -> dict:
    for name, text in request.cells.answers.items():  # reports show their lines
        answers.know_lines(_file(name), text)
    try:
        return _look(request) if isinstance(request, Look) else _play(request)
    except Exception as error:  # a rank can leave anything in the files that tell of it
        return {"spoiled": f"{type(error).__name__}: {error}"[:500]}


def _look(request: Look) -> dict:
    return wire.ended_to_plain(*playing.run(look_in_rank, 1, request, LOOKING, plain=True))


def _play(request: Play) -> dict:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for rank, calls in enumerate(request.calls):
            _calls_of(folder, rank).write_bytes(pickle.dumps(calls))
        arguments = (request.cells, request.function, folder)
        ended = playing.run(play_in_rank, len(request.calls), arguments, request.limits, plain=True)
        return wire.ended_to_plain(*ended)


def _calls_of(folder: str, rank: int) -> Path:
    return Path(folder, f"calls.{rank}")


# --- in a rank ---


def look_in_rank(cells: Cells, names: Sequence[str]) -> str:
    """Errors of cells, and what is not there or no function among the names, as JSON."""
    errors = _define(cells)
    found = {name: _defined[name] for name in names if name in _defined}
    others = {name: repr(value)[:60] for name, value in found.items() if not callable(value)}
    return json.dumps({"errors": errors, "others": others, "missing": sorted(set(names) - set(found))})


def play_in_rank(cells: Cells, function: bytes, folder: str) -> str:
    """What the calls of this rank come to, as JSON."""
    import torch.distributed as dist

    path = _calls_of(folder, dist.get_rank())
    calls = pickle.loads(path.read_bytes())
    path.unlink()
    playing.wait_for_others(dist.distributed_c10d._get_default_store(), "calls are read")
    _define(cells)
    return wire.played_to_text(playing.play_calls(pickle.loads(function), calls))


def _define(cells: Cells) -> dict[str, str]:
    """Run the cells, as the module __main__; what was wrong with each."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    global _defined
    _defined = vars(module)
    _defined["get_ipython"] = _NoShell
    exec(cells.imports, _defined)
    errors = {name: answers.run_cell(_file(name), text, _defined) for name, text in cells.answers.items()}
    return {name: f"{type(error).__name__}: {error}"[:500] for name, error in errors.items() if error}


class _NoShell:
    """In place of IPython, which a rank has not: magics and commands do nothing there."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments, **named: None


def _file(name: str) -> str:
    return f"<{name}>"
