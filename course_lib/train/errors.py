"""What ends a run in order, with one sentence that all ranks know.

Stands on nothing: every other module of this package may raise it.
"""

from __future__ import annotations


class TrainingError(Exception):
    """Raised on all ranks alike; str() says what happened and what to do."""


class Stopped(Exception):
    """Raised out of ``optimizer.step()`` on all ranks alike, to leave whatever loop called it."""
