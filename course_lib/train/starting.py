"""Starts the ranks of a run, or uses those of torchrun.

Runs in the notebook or the command, and in each rank of torchrun; ``rank.train`` does the work.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from course_lib import ranks
from course_lib.ranks import torchrun
from course_lib.ranks.lost import is_lost_rank
from course_lib.train.errors import TrainingError
from course_lib.train.rank import train
from course_lib.train.records import Outcome, Record
from course_lib.train.settings import DEFAULT_RANKS, Settings

Stopping = Callable[[Callable[[], object]], contextlib.AbstractContextManager]


def run(settings: Settings) -> list[Record]:
    """Train, and return what is known of each step.  Raises as ``outcome``."""
    return outcome(settings).records


def outcome(settings: Settings, stopping: Stopping = contextlib.nullcontext) -> Outcome:
    """Train on ranks that are started here, or on those that torchrun started.

    ``stopping(request)``: a context that may call ``request()``, and then the run ends after its step.

    Raises ``ranks.RanksError`` if a rank fails or hangs; its ``exception`` is a TrainingError for what all
    ranks found wrong together.  Under torchrun that is raised itself, and also where the settings ask for
    another number of ranks than there are, or for slow links.  Raises ValueError where Slurm has started
    several processes that know nothing of each other.
    """
    _require_no_other_tasks()
    run_on = _on_torchruns if torchrun.is_here() else _on_ranks_of_its_own
    return run_on(settings, stopping)


def _require_no_other_tasks() -> None:
    # Of a job step; SLURM_NTASKS is set in a batch script, too, of which there is one.
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))
    if tasks > 1 and not torchrun.is_here():
        raise ValueError(
            f"srun has started {tasks} tasks, and each would be a run of its own: expected one task on each "
            "machine, in which torchrun starts the ranks, as in cluster/train.sbatch"
        )


def _on_ranks_of_its_own(settings: Settings, stopping: Stopping) -> Outcome:
    # Ranks are no children of this process and get none of its signals: once this file is there, they know.
    stop = Path(tempfile.gettempdir()) / f"course-train-{uuid.uuid4().hex}.stop"
    should_stop, links = partial(os.path.exists, stop), settings.slow_links
    count = settings.ranks or DEFAULT_RANKS
    try:
        with stopping(stop.touch):
            return ranks.run(train, count, settings, should_stop, timeout=settings.timeout, links=links)[0]
    finally:
        stop.unlink(missing_ok=True)


def _on_torchruns(settings: Settings, stopping: Stopping) -> Outcome:
    if settings.ranks not in (None, torchrun.world_size()):
        raise TrainingError(f"ranks={settings.ranks}: torchrun has started {torchrun.world_size()}")
    if settings.links is not None:
        raise TrainingError(f"links={settings.links!r}: under torchrun the network is the one that is there")
    _join(settings.timeout)  # SIGTERM still ends a rank that looks in vain for the others
    stop = threading.Event()
    with stopping(stop.set):
        return train(settings, partial(_should_stop, stop, os.getppid()))


def _join(timeout: float) -> None:
    try:
        torchrun.join(timeout)
    except RuntimeError as problem:
        if not is_lost_rank(problem):
            raise
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise ConnectionError(
            f"not all {torchrun.world_size()} ranks have met at {place} within {timeout:g} s. Has each"
            " machine been started, and is MASTER_ADDR the machine of rank 0, which all of them reach?"
        ) from problem


def _should_stop(stop: threading.Event, parent: int) -> bool:
    # Without its agent nobody ends a rank, and it would be in the way of the next start.
    if "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != parent:
        raise RuntimeError("the torchrun agent of this rank is gone, so the rank ends")
    return stop.is_set()
