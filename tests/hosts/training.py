"""A small run of ``course train`` on machines, with a torchrun agent on each, as docs/clusters.md has it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from course_lib import train
from tests.hosts.machines import Machine, Started, wait_until

REPOSITORY = Path(__file__).parents[2]
AGENT = str(REPOSITORY / "cluster" / "agent.sh")
RATE = "20mbit"  # a step's 160 KiB take 70 ms, in which the processors are free for other tests
SECONDS_TO_RUN = 240
SIZES = {"batch": 12, "sequence": 16, "layers": 1, "hidden": 32, "heads": 2, "warmup": 2, "dtype": "float64"}
EVERY = 8  # steps between checkpoints
TIMEOUT = 20  # seconds; ranks on a busy machine may start that far apart
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "COURSE_DEVICE": "cpu", "PYTHONPATH": str(REPOSITORY),
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}  # fmt: skip


class Training:
    """One run, which agents may begin, leave and join.  Its log and checkpoints are in ``folder``."""

    def __init__(self, folder: Path, steps: int):
        self.steps, self.checkpoints, self.log = steps, folder / "checkpoints", folder / "log"
        self.started: list[Started] = []

    def options(self, checkpoints: Path | None = None) -> list[str]:
        values = {**SIZES, "steps": self.steps, "checkpoint": checkpoints or self.checkpoints,
                  "checkpoint-every": EVERY, "log-file": self.log, "timeout": TIMEOUT}  # fmt: skip
        return [*(text for name, value in values.items() for text in (f"--{name}", str(value))),
                "--no-utilization"]  # fmt: skip

    def start(
        self, machines: list[Machine], head: Machine, checkpoints: Path | None = None,
        count: str | None = None, options: Sequence[str] = (), **more: str,
    ) -> list[Started]:  # fmt: skip
        """An agent on each machine; ``count`` is MACHINES, by default as many.  No restarts, unless said."""
        agents = []
        for machine in machines:
            where = {"HEAD": head.address, "HERE": machine.address, "MACHINES": count or str(len(machines))}
            variables = {**ENVIRONMENT, **where, "RESTARTS": "0", **more}
            agents.append(machine.start([AGENT, *self.options(checkpoints), *options], **variables))
        self.started += agents
        return agents

    def go_on_here(self) -> train.Outcome:
        """The rest of the steps, in one process and without agents."""
        kept = {"checkpoint": self.checkpoints, "checkpoint_every": EVERY, "log": self.log}
        return train.outcome(_settings(steps=self.steps, **kept))

    @property
    def losses(self) -> dict[int, float]:
        """Of each step so far; those that are done again count once."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return {record["step"]: record["loss"] for record in map(_parsed, lines) if record}

    def wait_for_step(self, step: int) -> None:
        wait_until(lambda: step in self.losses, SECONDS_TO_RUN, f"step {step}", self.started)

    def assert_undisturbed(self) -> None:
        """The loss curve of all steps is that of one process which was never stopped."""
        expected = losses_of_one_process(self.steps)
        assert list(self.losses) == list(expected)
        for step, loss in expected.items():
            assert math.isclose(self.losses[step], loss, rel_tol=1e-9), f"step {step}"


def long(test: Callable) -> Callable:
    """Marks a test that takes minutes."""
    return pytest.mark.long(pytest.mark.timeout(900)(test))


def losses_of_one_process(steps: int) -> dict[int, float]:
    return {record.step: record.loss for record in train.run(_settings(steps=steps))}


def _settings(**more: object) -> train.Settings:
    return train.Settings(**SIZES, **more, ranks=1, utilization=False, quiet=True)


def _parsed(line: str) -> dict | None:
    try:
        return json.loads(line)
    except ValueError:  # it is being written
        return None
