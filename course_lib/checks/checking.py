"""One line in a notebook: draw the cases, play them, judge them.

Each exercise's functions end here; ``playing``, ``judging``, ``report`` and ``showing`` do the work.  Who
marks (``classroom.marking``) plays in another way, and gets the findings in place of a learner.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from course_lib.checks import judging, playing
from course_lib.checks.judging import Judgement
from course_lib.checks.part import Attempt, Part
from course_lib.checks.report import report
from course_lib.checks.showing import show


@dataclass(frozen=True)
class Findings:
    """What a check found.  Without judgements: ``text`` says why there is nothing to judge.

    ``seconds``: how long each run took.
    """

    part: Part
    judgements: tuple[Judgement, ...]
    text: str
    is_not_yet: bool = False
    seconds: tuple[float, ...] = ()

    @property
    def share(self) -> float:
        return judging.share(self.part, self.judgements) if self.judgements else 0.0


class Marker(Protocol):
    """Who marks: a check plays with its ``play``, and gives it the findings in place of printing them."""

    @property
    def play(self) -> playing.Play: ...

    def hear(self, findings: Findings) -> None: ...


_marker: ContextVar[Marker | None] = ContextVar("marker", default=None)


@contextlib.contextmanager
def marked_by(marker: Marker) -> Iterator[None]:
    """Checks in the block are for this marker."""
    token = _marker.set(marker)
    try:
        yield
    finally:
        _marker.reset(token)


def check(part: Part, function: Callable, taken_as: Callable[[Attempt], Attempt] | None = None) -> float:
    """Run all three steps, print what was found, and return the share that is right.

    ``taken_as`` gives what is judged in place of what was played.
    """
    marker = _marker.get()
    findings = find(part, function, taken_as, marker.play if marker else playing.play)
    if marker:
        marker.hear(findings)
    else:
        print(findings.text)
        show(part, findings.judgements)
    return findings.share


def find(
    part: Part,
    function: Callable,
    taken_as: Callable[[Attempt], Attempt] | None,
    play: playing.Play,
) -> Findings:
    """All three steps."""
    if not callable(function):
        return Findings(part, (), f"{part.example}: expected a function to check, got {function!r:.60}")
    judgements, times = [], [time.monotonic()]
    for attempt in playing.attempts(part, function, play):
        if judging.is_not_yet(attempt):
            text = f"{part.example}: not yet. Replace `raise NotImplementedError()` by your code."
            return Findings(part, (), text, is_not_yet=True)
        judgements.append(judging.judge(part, taken_as(attempt) if taken_as else attempt))
        times.append(time.monotonic())
    seconds = tuple(end - begin for begin, end in pairwise(times))
    return Findings(part, tuple(judgements), report(part, judgements), seconds=seconds)
