"""A run's state: into a checkpoint from time to time, and out of it on all ranks.

Stands on ``checkpoint`` for files and on ``ranks_agree`` for what all ranks must know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from course_lib import data_parallel, ranks
from course_lib.data_parallel.modules import gather
from course_lib.train import checkpoint
from course_lib.train.data import generator
from course_lib.train.errors import TrainingError
from course_lib.train.ranks_agree import from_rank, from_rank_0

_SECONDS_FOR_ANOTHER_RUN = 10.0  # which ends: a rank that was stopped writes a last checkpoint


@dataclass
class Trained:
    """What training changes."""

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler

    def load(self, state: checkpoint.State) -> None:
        self.module.load_state_dict(state.weights)
        self.optimizer.load_state_dict(state.optimizer)
        self.scaler.load_state_dict(state.scaler)


@contextlib.contextmanager
def alone_in(folder: Path | None, timeout: float) -> Iterator[None]:
    """While open, rank 0 holds the checkpoint folder; so its disk can be written before the first step.

    Raises TrainingError on all ranks where it can't, or another run has it.  None holds nothing.
    """
    with contextlib.ExitStack() as stack:
        if folder is not None:
            seconds = min(_SECONDS_FOR_ANOTHER_RUN, timeout / 2)
            from_rank_0(partial(_hold, stack, folder, seconds))
        yield


def _hold(stack: contextlib.ExitStack, folder: Path, seconds: float) -> None:
    try:
        stack.enter_context(checkpoint.held(folder, seconds))
    except OSError as problem:
        raise ValueError(
            f"checkpoint={str(folder)!r}: expected a folder that can be written to ({problem.strerror})"
        ) from None


class Keeper:
    """Resumes and keeps one run.  All ranks call each method together.

    ``folder``: None keeps nothing.  ``of_a_run``: what has to be the same in a checkpoint.
    Rank 0 alone writes, to its own machine's disk; the newest checkpoint on any machine's disk is read.  So
    machines need no disk in common, as long as the one that has it takes part.
    """

    def __init__(self, folder: Path | None, of_a_run: dict, trained: Trained):
        self._folder, self._of_a_run, self._trained = folder, of_a_run, trained
        self._random: list[list[torch.Tensor]] = []
        self.path: Path | None = None  # of the newest checkpoint

    def resume(self) -> tuple[int, list[str]]:
        """Load the newest checkpoint: the step it was made after, 0 without one, and what is to be said.

        Raises TrainingError for a checkpoint of another run, and where all are damaged.
        """
        folder = self._folder
        if folder is None:
            return 0, []
        holder = _holder(folder)
        found = from_rank(holder, lambda: self._find(folder))
        if found.path is None or found.content is None:
            return 0, ["begins with step 1: no machine has a checkpoint yet"]
        state = checkpoint.state_of(found.content)
        self._trained.load(state)
        self._random, self.path = state.random, found.path
        whose = f", which rank {holder} has" if holder else ""
        return state.step, [*found.remarks, f"goes on after step {state.step}, from {found.path.name}{whose}"]

    def _find(self, folder: Path) -> checkpoint.Found:
        found = checkpoint.newest(folder)
        if found.path is not None and found.content is not None:
            there = checkpoint.state_of(found.content).settings
            checkpoint.require_same_run(found.path, there, self._of_a_run)
        return found

    def set_random_state(self, seed: int, step: int) -> None:
        """As it was on this rank; on another number of ranks a new one, from the seed and the step."""
        rank = dist.get_rank()
        if len(self._random) != dist.get_world_size():
            torch.manual_seed(generator(seed, step, rank).initial_seed())
            return
        torch.set_rng_state(self._random[rank][0])
        if ranks.device().type == "cuda" and len(self._random[rank]) > 1:
            torch.cuda.set_rng_state(self._random[rank][1])

    def keep(self, step: int) -> None:
        """Make sure that the ranks are in step; then write a checkpoint.

        Raises TrainingError on all ranks if they are not, if a weight is not finite any more, or if it can't
        be written.
        """
        try:
            data_parallel.assert_in_step(self._trained.module)
        except AssertionError as apart:
            raise TrainingError(f"After step {step}: {apart} No checkpoint of it is written.") from None
        if not all(each.isfinite().all() for each in self._trained.module.parameters()):
            raise self.diverged(f"After step {step} not all weights are finite")
        folder = self._folder
        if folder is not None:
            random = gather(_random_state())
            self.path = from_rank_0(lambda: self._write(folder, step, random))

    def diverged(self, what: str) -> TrainingError:
        """To be raised on all ranks; ``what`` shows it."""
        before = "" if self.path is None else f" {self.path} is from before."
        another = " That is another run, so give it another --checkpoint folder." if self._folder else ""
        return TrainingError(
            f"{what}: the training has diverged.{before} A lower --learning-rate, or more --warmup, may "
            f"help.{another}"
        )

    def _write(self, folder: Path, step: int, random: list[list[torch.Tensor]]) -> Path:
        trained = self._trained
        state = checkpoint.State(
            step, self._of_a_run, trained.module.state_dict(), trained.optimizer.state_dict(),
            trained.scaler.state_dict(), random,
        )  # fmt: skip
        try:
            return checkpoint.write(folder, state)
        except OSError as problem:
            before = "" if self.path is None else f" {self.path.name} is there as before."
            raise ValueError(
                f"After step {step} no checkpoint can be written to {folder} ({problem.strerror})."
                f"{before} Mend that, and start the same command again."
            ) from None


def _random_state() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if ranks.device().type == "cuda" else [])]


def _holder(folder: Path) -> int:
    """The first rank of those that see the newest checkpoint; rank 0 where there is none."""
    steps = [-1 if step is None else step for step in gather(_newest_step(folder))]
    return steps.index(max(steps))


def _newest_step(folder: Path) -> int | None:
    try:
        return checkpoint.newest_step(folder)
    except OSError:
        return None  # if it is rank 0, it will say what is wrong
