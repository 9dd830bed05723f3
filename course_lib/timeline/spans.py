"""A span: one rank did one thing for a while.

Plain data, on which recording, drawing, adding up and the simulator stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real

from course_lib.arguments import one_of, whole_number
from course_lib.palette import color_of

LANES = ("compute", "communication")


@dataclass(frozen=True)
class Span:
    """One rank did one thing from ``start`` to ``end``, in seconds on a clock that all ranks share.

    ``kind`` is one of palette.COLORS and decides the color; ``label`` says what it was.  ``lane``: what a
    rank does at the same time as it computes is in its lane "communication".  ``step``: which training step
    it belongs to, counted from 0.  Raises ValueError for an unknown kind or lane, for times that are not
    finite numbers, and for an end before the start.
    """

    rank: int
    kind: str
    label: str
    start: float
    end: float
    lane: str = "compute"
    step: int = 0

    def __post_init__(self) -> None:
        color_of(self.kind)
        one_of("lane", self.lane, LANES)
        for name in ("rank", "step"):
            whole_number(name, getattr(self, name), least=0)
        for name in ("start", "end"):
            _require_time(name, getattr(self, name))
        if self.end < self.start:
            raise ValueError(f"end={self.end!r}: expected a time not before start={self.start!r}")

    @property
    def seconds(self) -> float:
        return self.end - self.start


def _require_time(name: str, value: object) -> None:
    """As it is, since what is exact as an int or a fraction need not be as a float."""
    if not isinstance(value, Real) or isinstance(value, bool) or not isfinite(value):
        raise ValueError(f"{name}={value!r}: expected a time in seconds, a finite number")


def in_tracks(spans: Iterable[Span]) -> list[list[Span]]:
    """The spans in as few rows as it takes so that in each row they follow, or lie within, one another.

    Only spans that begin within another and end after it need rows of their own, as the reductions of two
    buckets do that are under way at once.
    """
    tracks: list[list[Span]] = []
    open_ends: list[list[float]] = []  # for each track, the ends of spans that are not over, inmost last
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        track = _first_with_room(open_ends, span)
        if track == len(tracks):
            tracks.append([])
            open_ends.append([])
        tracks[track].append(span)
        open_ends[track].append(span.end)
    return tracks


def _first_with_room(open_ends: Sequence[list[float]], span: Span) -> int:
    for track, ends in enumerate(open_ends):
        while ends and ends[-1] <= span.start:
            ends.pop()
        if not ends or span.end <= ends[-1]:
            return track
    return len(open_ends)
