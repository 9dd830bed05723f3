"""Steps that were measured, one kind of mark for each implementation, in a panel and in what explains it.

The explorers of overlap and of a cluster put them over what they compute.  Lessons measure the points, or
read recorded ones, and pass them in: nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.pictures import Looks

_MARKERS = "x+^sD"
_LOOKS: Looks = {"color": "black", "markersize": 8, "markerfacecolor": "none", "markeredgewidth": 1.5,
                 "linestyle": "none"}  # fmt: skip


class MeasuredPoints:
    """``artists`` are the marks, which ``show`` moves; ``keys`` say which implementation each is of."""

    def __init__(self, axes: Axes, implementations: Iterable[str]):
        """``implementations``: of each point.  Raises ValueError if they are too many."""
        names = list(dict.fromkeys(implementations))
        if len(names) > len(_MARKERS):
            raise ValueError(f"points of {len(names)} implementations: expected {len(_MARKERS)} at most")
        looks = {name: {"marker": marker, **_LOOKS} for name, marker in zip(names, _MARKERS, strict=False)}
        self._marks = {name: axes.plot([], [], clip_on=False, **look)[0] for name, look in looks.items()}
        self.artists = list(self._marks.values())
        self.keys = [Line2D([], [], label=f"{name}, measured", **look) for name, look in looks.items()]

    def show(self, points: Iterable[tuple[str, float, float]]) -> None:
        """Points with their implementation, and their place in the panel."""
        places: dict[str, list[tuple[float, float]]] = {name: [] for name in self._marks}
        for name, x, y in points:
            places[name].append((x, y))
        for name, marks in self._marks.items():
            marks.set_data([x for x, _ in places[name]], [y for _, y in places[name]])
