"""Rows of bars with texts in them, on a sheet whose unit is the inch: timelines, and what is in a bucket.

Stands on ``ring_drawing`` for texts that follow a slider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from course_lib.explorers.units import axis_end
from course_lib.palette import ink_on
from course_lib.ring_drawing import FONT, Texts, text_width

_MARGIN = 0.07  # left and right of a text together
_NARROW = 0.03  # below, an edge would hide the bar
_TICK = 0.04
_PARTS = 5  # of an axis of time


class Bar(NamedTuple):
    """From ``left`` and ``top``, in inches; ``text`` is left out where there is no room for it."""

    left: float
    width: float
    top: float
    height: float
    color: str
    text: str = ""


class Bars:
    """Bars that change.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, axes: Axes):
        self._shapes = axes.add_collection(PolyCollection([], joinstyle="miter"), autolim=False)
        self._texts = Texts(axes)
        self.changing: list[Artist] = [self._shapes, self._texts.artist]

    def show(self, bars: Iterable[Bar]) -> None:
        bars = list(bars)
        self._shapes.set(
            verts=[corners(bar) for bar in bars], facecolor=[bar.color for bar in bars], linewidth=0.5,
            edgecolor=["white" if bar.width > _NARROW else bar.color for bar in bars],
        )  # fmt: skip
        named = [bar for bar in bars if bar.text and text_width(bar.text, FONT) + _MARGIN < bar.width]
        self._texts.show((bar.text, bar.left + bar.width / 2, bar.top + bar.height / 2) for bar in named)
        self._texts.artist.set_facecolor([ink_on(bar.color) for bar in named])


def corners(bar: Bar) -> list[tuple[float, float]]:
    """Those of its rectangle, for a PolyCollection."""
    right, bottom = bar.left + bar.width, bar.top + bar.height
    return [(bar.left, bar.top), (right, bar.top), (right, bottom), (bar.left, bottom)]


class TimeAxis:
    """A line from ``left`` to ``right`` at a height, and the times at its ticks, which change."""

    def __init__(self, axes: Axes, left: float, right: float, height: float):
        self._left, self._width, self._height = left, right - left, height
        axes.plot([left, right], [height, height], color="black", linewidth=0.8)
        for part in range(_PARTS + 1):
            axes.plot(2 * [self._place(part)], [height, height + _TICK], color="black", linewidth=0.8)
        self._texts = Texts(axes)
        self.changing: list[Artist] = [self._texts.artist]

    def show(self, seconds: float) -> float:
        """Let the axis reach ``seconds`` or a little more; return its inches for a second."""
        unit, factor = time_unit(seconds)
        end = axis_end(factor * seconds)
        times = ["0", *(f"{end * part / _PARTS:g} {unit}" for part in range(1, _PARTS + 1))]
        self._texts.show((text, self._place(part), self._height + 0.15) for part, text in enumerate(times))
        return self._width * factor / end

    def _place(self, part: int) -> float:
        return self._left + self._width * part / _PARTS


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit in which a number about as large is easy to read, and how many of it a second has."""
    return ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
