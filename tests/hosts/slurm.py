"""What cluster/train.sbatch needs of Slurm, for tests: srun and scontrol on machines that are there.

srun starts a command on each machine, as a task on each node.  SIGUSR1 stands for the signal that Slurm sends
to all processes of a step before the time is over.  Real Slurm is more than this, and was not tried.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from course_lib.processes import end_with_parent
from tests.hosts.machines import Machine, Started, in_child, wait_until
from tests.hosts.training import ENVIRONMENT, REPOSITORY

SCRIPT = REPOSITORY / "cluster" / "train.sbatch"
_SECONDS_TO_END = 30  # KillWait: between SIGTERM and SIGKILL for what is left of a step


class Job:
    """The batch script, with stand-ins for Slurm's programs first on its PATH, and ``machines`` as nodes."""

    def __init__(self, folder: Path, machines: list[Machine], number: int, options: list[str]):
        self._folder, self._options = folder, options
        programs = folder / "programs"
        programs.mkdir()
        for name in ("srun", "scontrol"):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.hosts.slurm {name} "$@"\n')
            program.chmod(0o755)
        self._environment = {
            **os.environ, **ENVIRONMENT, "PATH": f"{programs}:{ENVIRONMENT['PATH']}",
            "STAND_IN_FOLDER": str(folder), "COURSE": str(REPOSITORY),
            "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_ID": str(number),
            "SLURM_JOB_NUM_NODES": str(len(machines)), "SLURM_CPUS_PER_TASK": "8",
            "SLURM_JOB_NODELIST": ",".join(machine.address for machine in machines),
        }  # fmt: skip

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen]:
        """What Slurm does when the job's turn comes, for the first time or again."""
        command = in_child("here", "bash", SCRIPT, *self._options)
        with (self._folder / "job.log").open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       cwd=self._folder, env=self._environment)  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run(self, seconds: float) -> int:
        """Its exit status."""
        with self.running() as process:
            return self.wait(process, seconds)

    def wait(self, process: subprocess.Popen, seconds: float) -> int:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {seconds} s\n{self.log}") from None

    @property
    def log(self) -> str:
        return (self._folder / "job.log").read_text()

    @property
    def requeued(self) -> list[str]:
        path = self._folder / "requeued"
        return path.read_text().split() if path.exists() else []

    def time_is_nearly_over(self) -> None:
        os.kill(int((self._folder / "srun.pid").read_text()), signal.SIGUSR1)


def _srun(folder: Path, *arguments: str) -> int:
    end_with_parent()
    (folder / "srun.pid").write_text(str(os.getpid()))
    assert arguments[0] == "--kill-on-bad-exit=1", arguments
    tasks = []
    for node, address in enumerate(os.environ["SLURM_JOB_NODELIST"].split(",")):
        machine = Machine(int(address.rpartition(".")[2]) - 1, folder, folder / "network.made")
        variables = {"SLURM_NODEID": str(node), "SLURMD_NODENAME": address}
        tasks.append(machine.start(list(arguments[1:]), **variables))
    signal.signal(signal.SIGUSR1, lambda *_: _to_all(tasks, signal.SIGTERM))
    while _is_any_left(tasks) and not any(task.status for task in tasks):
        time.sleep(0.05)
    if any(task.status for task in tasks):
        _to_all(tasks, signal.SIGTERM)
    _end(tasks)
    for task in tasks:
        print(task.output)
    return max(abs(task.status) for task in tasks)


def _is_any_left(tasks: list[Started]) -> bool:
    return any(task.status is None for task in tasks)


def _to_all(tasks: list[Started], number: int) -> None:
    for task in tasks:
        task.signal(number, everyone=True)


def _end(tasks: list[Started]) -> None:
    try:
        wait_until(lambda: not _is_any_left(tasks), _SECONDS_TO_END, "the end of all tasks")
    except AssertionError:
        for task in tasks:
            task.kill()


def _scontrol(folder: Path, *arguments: str) -> int:
    if arguments[:2] == ("show", "hostnames"):
        print(arguments[2].replace(",", "\n"))
    elif arguments[0] == "requeue":
        with (folder / "requeued").open("a") as file:
            file.write(f"{arguments[1]}\n")
    else:
        return 1
    return 0


if __name__ == "__main__":
    program = {"srun": _srun, "scontrol": _scontrol}[sys.argv[1]]
    sys.exit(program(Path(os.environ["STAND_IN_FOLDER"]), *sys.argv[2:]))
