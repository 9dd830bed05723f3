"""What ``ranks.run`` raises.  str() of each is the whole report, and the same on every run.

Stands on nothing, so that whoever catches them loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankState:
    """What one rank was doing when its run ended.

    ``status`` is ``returned``, ``raised``, ``died``, ``waiting`` (in a communication operation),
    ``running`` or ``starting``; ``doing`` says it in words; ``line`` is the learner's line, "" if unknown.
    """

    rank: int
    status: str
    doing: str
    line: str = ""


class RanksError(RuntimeError):
    """A run on several ranks did not end well.  ``states`` holds a RankState for each rank."""

    def __init__(self, report: str, states: list[RankState] | None = None):
        super().__init__(report)
        self.states = states or []

    def _render_traceback_(self) -> list[str]:
        """IPython shows this in place of the lines in which the course noticed the error."""
        return [f"{type(self).__name__}: {self}"]


def states_of(error: Exception | None) -> list[RankState]:
    """The states that an error has; none where it is of another kind, or there is none."""
    return error.states if isinstance(error, RanksError) else []


class RankFailed(RanksError):
    """A rank raised, left or died.  ``exception`` is what it raised, where that could be sent, else None."""

    def __init__(self, report: str, states: list[RankState], exception: BaseException | None = None):
        super().__init__(report, states)
        self.exception = exception


class RanksHung(RanksError):
    """No rank made progress within the time limit."""


class NeedsRanks(RanksError):
    """Under torchrun: a cell needs another number of ranks than there are."""

    def __init__(self, needed: int, there: int):
        super().__init__(f"this needs {needed} ranks, and torchrun started {there}")


class NeedsLinks(RanksError):
    """Under torchrun: a cell needs slow links between its ranks."""

    def __init__(self) -> None:
        super().__init__("this needs slow links, and under torchrun the network is the one that is there")
