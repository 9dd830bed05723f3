"""Starts the ranks of a run, or uses those of torchrun."""

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
from course_lib.train.errors import TrainingError
from course_lib.train.rank import train
from course_lib.train.records import Outcome, Record
from course_lib.train.settings import Settings

Stopping = Callable[[Callable[[], object]], contextlib.AbstractContextManager]

_RANKS = 2  # where nobody says how many


def run(settings: Settings) -> list[Record]:
    """Train, and return what is known of each step.  Raises as ``outcome``."""
    return outcome(settings).records


def outcome(settings: Settings, stopping: Stopping = contextlib.nullcontext) -> Outcome:
    """Train on ranks that are started here, or on those that torchrun started.

    ``stopping(request)``: a context that may call ``request()``, and then the run ends after its step.

    Raises ``ranks.RanksError`` if a rank fails or hangs; its ``exception`` is a TrainingError for what all
    ranks found wrong together.  Under torchrun that is raised itself, and also where the settings ask for
    another number of ranks than there are, or for slow links.
    """
    run_on = _on_torchruns if torchrun.is_here() else _on_ranks_of_its_own
    return run_on(settings, stopping)


def _on_ranks_of_its_own(settings: Settings, stopping: Stopping) -> Outcome:
    # Ranks are no children of this process and get none of its signals: once this file is there, they know.
    stop = Path(tempfile.gettempdir()) / f"course-train-{uuid.uuid4().hex}.stop"
    should_stop, links = partial(os.path.exists, stop), settings.slow_links
    count = settings.ranks or _RANKS
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
    torchrun.join(settings.timeout)  # SIGTERM still ends a rank that looks in vain for the others
    stop = threading.Event()
    with stopping(stop.set):
        return train(settings, stop.is_set)
