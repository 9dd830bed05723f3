"""Plays a learner's functions in a jail, for a marker.

``marking`` gives it to the checks in place of ``checks.playing``.  It asks ``jailed``, which runs in the
``jail``, over the ``wire``, and takes nothing for granted in what comes back.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Sequence

from course_lib import ranks
from course_lib.checks.part import Attempt, Case
from course_lib.checks.playing import calls
from course_lib.classroom import wire
from course_lib.classroom.jail import Jail, JailEnded, JailLimits, NoJail
from course_lib.classroom.jailed import LOOKING, Cells, Look, Play
from course_lib.ranks.watching import Limits

_START = "from course_lib.classroom.jailed import main; main()"
_MOST_BYTES = 1 << 26  # of an answer; right ones have a few hundred thousand
_SECONDS_TO_SPARE = 60  # for starting ranks, and for the report of a hang
_TIMES_SLOWER = 4  # on a busy machine, where a limit inside of the jail comes later
_SECONDS_TO_START = 180  # importing torch from a cold network disk, for the first time


class SpoiledRun(ranks.RanksError):
    """A run that ended the jail, or whose answer is none that a check writes."""


class Player:
    """A jail that is started when it is needed, and anew when something has ended it.

    ``number`` tells jails apart that are there at the same time.  After ``seconds`` in all nothing more is
    played, so that nobody holds up a class for hours.
    """

    def __init__(
        self,
        number: int = 0,
        limits: JailLimits | None = None,
        is_jailed: bool = True,
        seconds: float = math.inf,
    ):
        self._number, self._limits, self._is_jailed = number, limits or JailLimits(), is_jailed
        self._seconds, self._until = seconds, time.monotonic() + seconds
        self._jail: Jail | None = None
        self._has_started = self._is_closed = False

    def look(self, cells: Cells, names: Sequence[str]) -> wire.Looked:
        """What the cells define; raises RanksError if they don't come to an end."""
        texts, error, _ = self._ask(Look(cells, names), _seconds(LOOKING))
        try:
            if error is None:
                return wire.looked_from_text("".join(texts), cells.answers, names)
        except wire.BadReply as problem:
            error = _spoiled(problem)
        raise error

    def play(self, cells: Cells, function: Callable, cases: Sequence[Case], limits: Limits) -> Attempt:
        """Run a function, in which the learner's are ``Learners``, on all cases of one run."""
        of_ranks = calls(cases)
        request = Play(cells, pickle.dumps(function), of_ranks, limits)
        texts, error, printed = self._ask(request, _seconds(limits))
        played: list = []
        try:
            if error is None:
                played = [wire.played_from_text(text, len(cases)) for text in texts]
                played = list(zip(*_as_many(played, len(of_ranks)), strict=True))
        except wire.BadReply as problem:
            error = _spoiled(problem)
        return Attempt(len(of_ranks), cases, played if error is None else (), error, printed, limits=limits)

    def close(self) -> None:
        """End the jail for good, from any thread."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        if self._jail is not None:
            self._jail.close()
            self._jail = None

    def _ask(
        self, request: Look | Play, seconds: float
    ) -> tuple[list[str], ranks.RanksError | None, str]:
        """What ranks return, as text; the error that ended them; what they print."""
        if self._is_closed:
            raise NoJail("Marking was stopped.")
        if time.monotonic() > self._until:
            return [], ranks.RanksHung(f"Left out: all together took more than {self._seconds:g} s."), ""
        if self._jail is None:
            self._jail = Jail(["-c", _START], self._number, self._limits, self._is_jailed)
            seconds += 0 if self._has_started else _SECONDS_TO_START
            self._has_started = True
        try:
            return wire.ended(wire.reply(self._jail.ask(pickle.dumps(request), seconds, _MOST_BYTES)))
        except JailEnded as ended:
            self._end()
            return [], ranks.RanksHung(str(ended)) if ended.is_late else SpoiledRun(str(ended)), ""
        except wire.BadReply as problem:
            self._end()
            return [], _spoiled(problem), ""


def _as_many(played: list, expected: int) -> list:
    if len(played) != expected:
        raise wire.BadReply(f"{len(played)} results of {expected} ranks")
    return played


def _spoiled(problem: wire.BadReply) -> SpoiledRun:
    return SpoiledRun(f"What came back is not what a check writes: {problem}.")


def _seconds(limits: Limits) -> float:
    """How long the marker waits for an answer of a run with these limits."""
    return _TIMES_SLOWER * limits.total + _SECONDS_TO_SPARE
