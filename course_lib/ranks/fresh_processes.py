"""Starting ranks where forking a process with torch in it is not safe (macOS) or not possible (Windows).

Each rank is a new Python process that imports torch itself, so a call takes seconds.  A rank ends when its
standard input does, which the system closes when the kernel ends, however it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from course_lib.ranks.logbook import note_exit
from course_lib.ranks.run_files import RunFiles, import_path

_SECONDS_TO_END = 10


class FreshProcesses:
    """The same methods as ForkServer."""

    is_usable = True

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="course-ranks-"))
        self._processes: dict[Path, list[subprocess.Popen]] = {}
        atexit.register(self.close)

    def import_beforehand(self, modules: Iterable[str]) -> None:
        """Nothing: nobody lives long enough to do it for others."""

    def start(self, folder: Path, ranks: int) -> None:
        self._processes[folder] = [self._start(folder, rank) for rank in range(ranks)]

    def dump_stacks(self, folder: Path) -> None:
        if hasattr(signal, "SIGUSR1"):
            for process in self._processes[folder]:
                process.send_signal(signal.SIGUSR1)

    def end(self, folder: Path) -> None:
        processes = self._processes.pop(folder, [])
        for process in processes:
            _kill(process)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_END)
            if process.stdin is not None:
                process.stdin.close()

    def close(self) -> None:
        for folder in list(self._processes):
            self.end(folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, folder: Path, rank: int) -> subprocess.Popen:
        start = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
        start += "from course_lib.ranks.fresh_processes import become_rank; become_rank(*sys.argv[2:])"
        files = RunFiles(folder)
        with files.output(rank).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", start, json.dumps(import_path()), str(folder), str(rank)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL"},
                start_new_session=True,
            )
        threading.Thread(target=_note_end, args=(process, files, rank), daemon=True).start()
        return process


def become_rank(folder: str, rank: str) -> NoReturn:
    """The first lines of the new process."""
    threading.Thread(target=_end_with_the_kernel, args=(Path(folder),), daemon=True).start()
    from course_lib.ranks import rank_process

    rank_process.main(Path(folder), int(rank))


def _end_with_the_kernel(folder: Path) -> None:
    os.read(0, 1)  # returns when the kernel's end of the pipe is closed
    shutil.rmtree(folder.parent, ignore_errors=True)
    os._exit(1)


def _note_end(process: subprocess.Popen, files: RunFiles, rank: int) -> None:
    note_exit(files.logbook(rank), process.wait())


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # with what the rank started
        else:
            process.kill()
