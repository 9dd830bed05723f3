"""A class on one machine: so many kernels at once run whole lessons.  What comes out, and what does it take?

    python benchmarks/classroom_load.py                       12 learners, lessons 00 and 03
    python benchmarks/classroom_load.py --learners 4 --lessons 00

Each learner has a working copy and one kernel at a time; every second one begins with the last lesson.
Outputs are compared with the stored ones as nbval does, but for cells that show what differs by machine.  One
learner alone goes first, to compare.  Linux only: memory is the proportional set size (PSS), which counts a
page that several processes share in parts.  Exit status 1 if a notebook did not end, an output differs, or a
process is left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError

from course_lib import measurements, processes
from course_lib.working_copy import COURSE_ROOT, write_working_copy

MIB, GIB = 2**20, 2**30
SECONDS_FOR_A_CELL = 600
SECONDS_TO_BE_GONE = 10
LESSON_SECONDS = 50 * 60
NOT_COMPARED = {"application/vnd.jupyter.widget-view+json", "image/png", "image/jpeg"}  # as nbval
MAY_DIFFER = "nbval-ignore-output"
Process = tuple[int, int]  # pid, and when it started, since a pid may be given to another one


@dataclass
class Notebook:
    """One lesson of one learner."""

    lesson: str
    seconds: float = 0.0
    processor_seconds: float = 0.0
    resting_bytes: int = 0  # kernel and server of ranks, after the last cell
    compared: int = 0
    different: list[str] = field(default_factory=list)  # cells
    timed: int = 0  # cells that show measured points
    said_busy: int = 0  # those of them that say that the machine was busy
    failure: str = ""


# --- one learner ---


async def learn(folder: Path, lessons: Sequence[str], watch: Watch) -> list[Notebook]:
    """Run lessons one after the other, each in a kernel of its own."""
    return [await run_lesson(folder, lesson, watch) for lesson in lessons]


async def run_lesson(folder: Path, lesson: str, watch: Watch) -> Notebook:
    stored = nbformat.read(path_of(lesson), as_version=4)
    notebook, done = nbformat.from_dict(stored), Notebook(lesson)
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=SECONDS_FOR_A_CELL, kernel_name="python3", resources=place)
    began = time.monotonic()
    # ipykernel writes a warning about its transport there, and nothing that learners see.
    async with client.async_setup_kernel(stderr=subprocess.DEVNULL):
        kernel = client.km.provisioner.pid
        with watch.learner(kernel):
            try:
                for number, cell in enumerate(notebook.cells):
                    await client.async_execute_cell(cell, number)
            # An error in a cell, its time is over, or the kernel died.
            except (CellControlSignal, DeadKernelError) as error:
                done.failure = str(error).strip().splitlines()[-1]
            done.seconds = time.monotonic() - began
            done.processor_seconds = processor_seconds(kernel)
            pids = [kernel, *processes.descendants(kernel)]
            done.resting_bytes = sum(map(processes.proportional_bytes, pids))
    compare(nbformat.read(path_of(lesson), as_version=4), notebook, done)
    return done


def path_of(lesson: str) -> Path:
    return next((COURSE_ROOT / "notebooks").glob(f"{lesson}_*.ipynb"))


# --- outputs ---


def compare(stored, executed, done: Notebook) -> None:
    """Note which cells show something else than stored, and what timed cells say."""
    for before, after in zip(stored.cells, executed.cells, strict=True):
        if before.cell_type != "code":
            continue
        if MAY_DIFFER in before.metadata.get("tags", []):
            text = "".join(output.get("text", "") for output in after.outputs)
            done.timed += "measured here" in text or "recorded on" in text
            done.said_busy += "busy" in text
        else:
            done.compared += 1
            if comparable(before.outputs) != comparable(after.outputs):
                done.different.append(before.id)


def comparable(outputs) -> list[tuple[str, str]]:
    """Kind and content of all that is compared; text of one stream in one piece."""
    found: list[tuple[str, str]] = []
    for output in outputs:
        if output.output_type == "stream":
            name = output.name
            if found and found[-1][0] == name:
                found[-1] = name, found[-1][1] + output.text
            else:
                found.append((name, output.text))
        else:
            shown = output.get("data", {"error": output.get("evalue", "")})
            found += [(kind, str(text)) for kind, text in sorted(shown.items()) if kind not in NOT_COMPARED]
    return found


# --- processes ---


class Watch:
    """Looks at the memory of all learners' processes, once a second, from a thread of its own."""

    def __init__(self):
        self.seen: set[Process] = set()
        self.fullest, self.learners_then = 0, 0  # bytes of all at the fullest moment, and how many they were
        self.largest = 0  # bytes of one learner
        self._kernels: set[int] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @contextlib.contextmanager
    def learner(self, kernel: int) -> Iterator[None]:
        self._kernels.add(kernel)
        try:
            yield
        finally:
            self._kernels.discard(kernel)

    def _look_again_and_again(self) -> None:
        while not self._over.wait(1.0):
            children = processes.children()
            each = [self._look(kernel, children) for kernel in tuple(self._kernels)]
            self.largest = max([self.largest, *each])
            if sum(each) > self.fullest:
                self.fullest, self.learners_then = sum(each), len(each)

    def _look(self, kernel: int, children: dict[int, list[int]]) -> int:
        pids = [kernel, *processes.descendants(kernel, children)]
        self.seen |= {(pid, started) for pid in pids if (started := start_of(pid)) is not None}
        return sum(map(processes.proportional_bytes, pids))

    def left(self, seconds: float = SECONDS_TO_BE_GONE) -> list[Process]:
        """Of all processes that were seen, those that do not end within the time."""
        until = time.monotonic() + seconds
        while (alive := self._alive()) and time.monotonic() < until:
            time.sleep(0.1)
        return alive

    def _alive(self) -> list[Process]:
        return [(pid, started) for pid, started in self.seen if start_of(pid) == started]


def fields_of(pid: int) -> list[str]:
    """Of a process that is at work: nothing of one that waits to be buried."""
    fields = processes.fields(pid)
    return [] if fields[:1] == ["Z"] else fields


def start_of(pid: int) -> int | None:
    fields = fields_of(pid)
    return int(fields[19]) if fields else None


def processor_seconds(kernel: int) -> float:
    """What a kernel, the server of its ranks, and all ranks that have ended have taken."""
    ticks = [int(tick) for pid in (kernel, *processes.descendants(kernel)) for tick in fields_of(pid)[11:15]]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def server_bytes() -> int:
    """What a JupyterLab server takes for itself, on loopback, with nobody in it yet."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0",
                   "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={folder}"]  # fmt: skip
        environment = {**os.environ, "JUPYTER_RUNTIME_DIR": folder, "JUPYTER_CONFIG_DIR": folder}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=environment, **silent)
        try:
            until = time.monotonic() + 60
            while not list(Path(folder).glob("jpserver-*.json")) and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(2)
            return sum(map(processes.proportional_bytes, [process.pid, *processes.descendants(process.pid)]))
        finally:
            process.terminate()
            process.wait()


# --- a class ---


def run_class(learners: int, lessons: Sequence[str]) -> tuple[list[Notebook], Watch]:
    """All learners at once; every second one takes the lessons in the other order."""

    async def all_at_once(folder: Path, watch: Watch) -> list[list[Notebook]]:
        tasks = []
        for number in range(learners):
            copy = folder / f"learner-{number}"
            write_working_copy(COURSE_ROOT, copy)
            tasks.append(learn(copy, lessons[:: -1 if number % 2 else 1], watch))
        return await asyncio.gather(*tasks)

    with tempfile.TemporaryDirectory() as folder, Watch() as watch:
        done = asyncio.run(all_at_once(Path(folder), watch))
    return [notebook for of_learner in done for notebook in of_learner], watch


def problems(notebooks: Iterable[Notebook], left: Sequence[Process]) -> list[str]:
    """What went wrong, one line each."""
    found = [f"lesson {each.lesson}: {each.failure}" for each in notebooks if each.failure]
    found += [f"lesson {each.lesson}: other outputs in {', '.join(each.different)}"
              for each in notebooks if each.different]  # fmt: skip
    return found + [f"process {pid} is left" for pid, _ in left]


def report(lessons: Sequence[str], alone: Sequence[Notebook], notebooks: Sequence[Notebook], watch: Watch,
           server: int) -> Iterator[tuple[str, str]]:  # fmt: skip
    """What it took, as rows of a name and a text."""
    ended = sum(not each.failure for each in notebooks)
    yield "notebooks that came to their end", f"{ended} of {len(notebooks)}"
    same, compared, busy, timed = (
        sum(numbers) for numbers in zip(*(
            (each.compared - len(each.different), each.compared, each.said_busy, each.timed)
            for each in notebooks), strict=True))  # fmt: skip
    yield "cells that show what is stored", f"{same:,} of {compared:,}"
    yield 'timed cells that say "busy"', f"{busy} of {timed}"
    for lesson in lessons:
        [before] = _seconds(alone, lesson)
        now = _seconds(notebooks, lesson)
        times = f"alone {before:.0f}, now {statistics.median(now):.0f}, the longest {max(now):.0f}"
        yield f"seconds of lesson {lesson}", times
    work = max(each.processor_seconds for each in notebooks)
    yield "processor seconds of a lesson", f"at most {work:.0f}"
    mean = watch.fullest / max(watch.learners_then, 1)
    memory = f"{mean / MIB:.0f} MiB each in the fullest moment, one had {watch.largest / MIB:.0f} MiB"
    yield "memory of a learner", memory
    resting = statistics.median(each.resting_bytes for each in notebooks)
    yield "an open notebook between two cells", f"{resting / MIB:.0f} MiB"
    yield "a JupyterLab server beside it", f"{server / MIB:.0f} MiB"
    yield "8 GiB, 2 of them for the system", f"{6 * GIB / (mean + server):.0f} learners"
    yield "a core, half busy for 50 minutes", f"{LESSON_SECONDS / 2 / work:.0f} learners"


def _seconds(notebooks: Sequence[Notebook], lesson: str) -> list[float]:
    return [each.seconds for each in notebooks if each.lesson == lesson]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, default=12)
    parser.add_argument("--lessons", nargs="+", default=["00", "03"], metavar="NN")
    arguments = parser.parse_args(argv)
    server = server_bytes()
    alone, watch_alone = run_class(1, arguments.lessons)
    notebooks, watch = run_class(arguments.learners, arguments.lessons)
    print(f"{arguments.learners} learners at once, lessons {' and '.join(arguments.lessons)}")
    print(f"{measurements.machine()}, {date.today().isoformat()}")
    for name, text in report(arguments.lessons, alone, notebooks, watch, server):
        print(f"  {name:<36}{text}")
    found = problems([*alone, *notebooks], [*watch_alone.left(), *watch.left()])
    print("\n".join(found) if found else "  no process is left, and nothing hung")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
