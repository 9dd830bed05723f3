"""What one rank does, from its first line to the end.

The fork server imports this module before it forks ranks, so what is imported here costs nothing later.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import faulthandler
import gc
import io
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import NoReturn

import cloudpickle
import numpy  # noqa: F401 - so that ranks have it without importing it
import torch
import torch.distributed as dist

from course_lib.links import RankLink
from course_lib.ranks import current, frames, logbook, network, operations, pacing, payload
from course_lib.ranks.devices import backend
from course_lib.ranks.lost import is_lost_rank
from course_lib.ranks.run_files import RunFiles
from course_lib.ranks.seeds import seed

_LONGEST_MESSAGE = 4000  # characters
# The notebook's own limit ends a run; the process group's must not come before it.
_PROCESS_GROUP_TIMEOUT = datetime.timedelta(days=7)


def main(folder: Path, rank: int) -> NoReturn:
    """Set up, run the function, leave its result or failure in the run's folder, and wait to be ended.

    A rank never ends by itself: the others may still be connecting to it, or waiting for it, and would
    report a closed connection instead of what they wait for.
    """
    files = RunFiles(folder)
    _print_unbuffered()
    _write_stacks_to(files.stack(rank))
    book = logbook.Logbook(files.logbook(rank))
    book.set_pid(os.getpid())
    try:
        settings = json.loads(files.settings.read_text())
        book = _set_up(files, rank, settings)
        function, args, kwargs = payload.read(files.call)
        book.set_state(logbook.RUNNING)
        result = function(*args, **kwargs)
        payload.write(files.result(rank), result, f"the result of type {type(result).__name__}", compact=True)
        del function, args, kwargs, result
        _close_down()
        state = logbook.RETURNED
    except BaseException as error:  # sys.exit and KeyboardInterrupt must be reported, too
        _leave_failure(files, rank, book, error)
        state = logbook.FAILED
    with contextlib.suppress(Exception):  # the function may have closed or replaced it
        sys.stdout.flush()
    book.set_state(state)
    while True:
        time.sleep(3600)


def _set_up(files: RunFiles, rank: int, settings: dict) -> logbook.Logbook:
    ranks = settings["ranks"]
    os.environ.clear()
    os.environ.update(settings["environment"], RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    if files.links.exists():  # first, since a process with several threads can't enter
        network.enter(files.network, rank)
    os.chdir(settings["working_folder"])
    sys.path[:] = settings["path"]
    sys.argv = [""]
    torch.set_num_threads(settings["threads"])
    seed(rank)
    if settings["pacing"]:
        pacing.install(files.pacing, rank, [RankLink(*values) for values in settings["pacing"]])
    others = {other: files.logbook(other) for other in range(ranks) if other != rank}
    book = operations.watch(files.logbook(rank), others)
    current.enter(rank, settings["device"], files.live(rank), book)
    if settings["device"] == "cuda":
        torch.cuda.set_device(rank)
    # Object collectives pickle; classes and functions typed in a cell need cloudpickle for that.
    dist.distributed_c10d._pickler = cloudpickle.Pickler
    dist.init_process_group(
        backend(settings["device"]),
        store=dist.FileStore(str(files.store), ranks),
        rank=rank,
        world_size=ranks,
        timeout=_PROCESS_GROUP_TIMEOUT,
    )
    return book


def _print_unbuffered() -> None:
    """Write each print through at once, so that nothing is lost when the rank is killed."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(descriptor, "w", closefd=False)
        setattr(
            sys, name, io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
        )
    warnings.formatwarning = _format_warning


def _format_warning(message, category, filename, lineno, line=None) -> str:
    return f"{category.__name__}: {message} ({frames.line_at(filename, lineno)})\n"


def _write_stacks_to(path: Path) -> None:
    file = path.open("w")
    faulthandler.enable(file)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file)


def _close_down() -> None:
    """What a process does when it exits, since a rank is killed: run exit handlers, write out open files."""
    atexit._run_exitfuncs()
    for file in gc.get_objects():
        if issubclass(type(file), io.IOBase):  # isinstance would ask objects that only stand for others
            with contextlib.suppress(Exception):  # read-only, closed, or not a file of Python's
                file.flush()


def _leave_failure(files: RunFiles, rank: int, book: logbook.Logbook, error: BaseException) -> None:
    """Leave what is known of an exception; whatever its class does, the rank must come to its end."""
    message = _message(error)
    failure = {
        "type": type(error).__name__,
        "message": message,
        "lines": frames.lines_of(error.__traceback__),
        "is_transport": is_lost_rank(error),
        "is_mismatch": isinstance(error, operations.MismatchedOperations),
        "details": _details(error),
    }
    with contextlib.suppress(Exception):  # frees what the frames hold, unless the class forbids it
        error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        payload.write(files.failure(rank), failure, "the failure")
    except Exception:  # no space left, say
        book.leave_note(f"{type(error).__name__}: {message}")
        return
    with contextlib.suppress(Exception):
        # Rebuilding it may fail, too: then the notebook does without; the failure has its text.
        exception = payload.to_bytes(error, "the exception")
        payload.from_bytes(exception)
        files.exception(rank).write_bytes(exception)


def _details(error: BaseException) -> list[str]:
    """Notes, the members of a group, and the exception that this one came from, as text."""
    came_from = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    details = [str(note) for note in getattr(error, "__notes__", [])]
    details += [f"with {_named(member)}" for member in getattr(error, "exceptions", ())]
    if came_from is not None:
        details.append(f"{'caused by' if error.__cause__ else 'while handling'} {_named(came_from)}")
    return details


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {_message(error)}"


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        return "(its text can't be shown)"
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
