"""Explorer of lesson 02: what the star's root must carry over its link, beside what another rank's carries.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what ``carried`` takes from the cost model, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib import cost_model
from course_lib.arguments import one_of, whole_number
from course_lib.explorers.fast_canvas import layer_on_top
from course_lib.explorers.units import axis_end, bytes_text, duration, rate_text, size
from course_lib.explorers.widget import Explorer, Readout, selection, stops_with
from course_lib.palette import color_of
from course_lib.pictures import Looks, Picture
from course_lib.transformer import CONFIGS

FEWEST, MOST = 2, 1024  # ranks


class Point(NamedTuple):
    """One measurement: ``value`` in ``unit``, "B" that passed over a link, in and out, or "s" that it took.

    ``label`` says of which link, with what tensor, on what links, and where it was measured.  Points of one
    label get one mark.
    """

    ranks: int
    value: float
    unit: str
    label: str


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand: ranks, bytes of the tensor, and bytes/s of a link in each direction.

    Raises ValueError for numbers that can't be.
    """

    ranks: int = 4
    bytes: int = 8 << 20
    rate: float = 50e6

    def __post_init__(self) -> None:
        if not FEWEST <= whole_number("ranks", self.ranks) <= MOST:
            raise ValueError(f"ranks={self.ranks!r}: expected {FEWEST} to {MOST}")
        whole_number("bytes", self.bytes)
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"rate={self.rate!r}: expected bytes/s above 0")


class Carried(NamedTuple):
    """Bytes over one rank's link in a star all-reduce."""

    received: int
    sent: int

    @property
    def total(self) -> int:
        return self.received + self.sent


@lru_cache
def carried(bytes: int, ranks: int) -> tuple[Carried, Carried]:
    """What passes over the root's link, and over that of each other rank."""
    traffic = cost_model.traffic("star", bytes, ranks, element_bytes=1)
    root, other, *_ = map(Carried, traffic.received, traffic.sent)
    return root, other


# --- the picture ---

_SIZE = (7.4, 4.6)  # inches
_FONT = 9  # points
_COLOR = color_of("communication")
_LINES: dict[str, Looks] = {
    "the root's link": {"color": _COLOR, "linestyle": "-", "linewidth": 2},
    "another rank's link": {"color": _COLOR, "linestyle": "--", "linewidth": 2},
}
_HERE: Looks = {"marker": "o", "markersize": 12, "color": _COLOR, "linestyle": "none", "fillstyle": "none",
                "markeredgewidth": 1.8}  # fmt: skip
_MARKERS = "xs^D"
_MARK: Looks = {"color": "black", "linestyle": "none", "markersize": 7, "fillstyle": "none",
                "markeredgewidth": 1.4}  # fmt: skip
_RANK_TICKS, _SIZE_TICKS = (0.25, 0.5, 0.75, 1.0), (0.5, 1.0)  # of an axis
_FEWEST_AT_END = 8  # ranks, where their axis ends


def figure(choice: Choice, points: Sequence[Point] = ()) -> Picture:
    """Draw the bytes over the root's link and over another rank's as ranks are added, with measured points.

    On the left axis bytes in both directions together, on the right the seconds that they take at the
    choice's rate.  Raises ValueError for a point that can't be drawn, and for more than four labels.
    """
    drawing = Drawing(points)
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, points: Sequence[Point] = ()):
        self._points = _by_label(points)
        self.figure = Picture(figsize=_SIZE, description="")
        axes = self.figure.add_axes((0.125, 0.295, 0.76, 0.635), xlim=(0, 1), ylim=(0, 1))
        _draw_frame(axes)
        self._lines = [axes.plot([], [], **look)[0] for look in _LINES.values()]
        self._here = axes.plot([], [], clip_on=False, **_HERE)[0]
        self._measured = [axes.plot([], [], marker=marker, clip_on=False, **_MARK)[0]
                          for _, marker in zip(self._points, _MARKERS, strict=False)]  # fmt: skip
        self._ranks = [axes.text(x, -0.03, "", ha="center", va="top", fontsize=_FONT) for x in _RANK_TICKS]
        self._bytes, self._seconds = ([axes.text(x, y, "", ha=side, va="center", fontsize=_FONT)
                                       for y in _SIZE_TICKS]
                                      for x, side in ((-0.015, "right"), (1.015, "left")))  # fmt: skip
        self.changing = layer_on_top([*self._lines, *self._measured, self._here, *self._ranks, *self._bytes,
                                      *self._seconds])  # fmt: skip
        _draw_keys(self.figure, list(self._points))

    def show(self, choice: Choice) -> None:
        ends = _Ends.of(choice)
        for link, line in enumerate(self._lines):
            many = [carried(choice.bytes, ranks)[link].total for ranks in (FEWEST, ends.ranks)]
            line.set_data([FEWEST / ends.ranks, 1], [each / ends.bytes for each in many])
        here = [link.total / ends.bytes for link in carried(choice.bytes, choice.ranks)]
        self._here.set_data(2 * [choice.ranks / ends.ranks], here)
        for marks, points in zip(self._measured, self._points.values(), strict=True):
            shown = [ends.place(point, choice.rate) for point in points if ends.reach(point, choice.rate)]
            marks.set_data([x for x, _ in shown], [y for _, y in shown])
        for part, text in zip(_RANK_TICKS, self._ranks, strict=True):
            text.set_text(f"{part * ends.ranks:,.0f}")
        for part, left, right in zip(_SIZE_TICKS, self._bytes, self._seconds, strict=True):
            left.set_text(size(part * ends.bytes))
            right.set_text(duration(part * ends.bytes / choice.rate))
        self.figure.description = description(choice)


class _Ends(NamedTuple):
    """Where the axes end."""

    ranks: int
    bytes: float

    @classmethod
    def of(cls, choice: Choice) -> _Ends:
        """The next power of two ranks, and the next round number of bytes above the root's line."""
        ranks = max(_FEWEST_AT_END, 1 << (choice.ranks - 1).bit_length())
        return cls(ranks, axis_end(carried(choice.bytes, ranks)[0].total))

    def place(self, point: Point, rate: float) -> tuple[float, float]:
        """Where on the axes: seconds on the right one."""
        number = point.value if point.unit == "B" else point.value * rate
        return point.ranks / self.ranks, number / self.bytes

    def reach(self, point: Point, rate: float) -> bool:
        return max(self.place(point, rate)) <= 1


def _draw_frame(axes: Axes) -> None:
    """All that stays: spines, grid, and what the axes show."""
    axes.set_xticks([0, *_RANK_TICKS], ["0", *4 * [""]], fontsize=_FONT)
    axes.set_yticks([0, *_SIZE_TICKS], ["0", "", ""], fontsize=_FONT)
    axes.grid(color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["top"].set_visible(False)
    axes.set_xlabel("ranks N", fontsize=_FONT, labelpad=4)
    for x, text in ((0, "bytes over the link, in and out"), (1, "seconds, at the chosen rate")):
        axes.text(x, 1.035, text, ha="right" if x else "left", va="bottom", fontsize=_FONT)


def _draw_keys(figure: Picture, labels: Sequence[str]) -> None:
    """Lines and the chosen place, and below them the measured points."""
    lines = [Line2D([], [], label=label, **look) for label, look in _LINES.items()]
    lines.append(Line2D([], [], label="both at the chosen N", **_HERE))
    points = [Line2D([], [], marker=marker, label=label, **_MARK)
              for label, marker in zip(labels, _MARKERS, strict=False)]  # fmt: skip
    for handles, top, columns in ((lines, 0.18, 3), (points, 0.11, 2)):
        figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.1, top), ncols=columns,
                      frameon=False, fontsize=_FONT, borderaxespad=0, columnspacing=1.6,
                      handletextpad=0.6)  # fmt: skip


def _by_label(points: Sequence[Point]) -> dict[str, list[Point]]:
    labels: dict[str, list[Point]] = {}
    for point in map(Point._make, points):
        if one_of("unit", point.unit, ("B", "s")) and not (point.ranks >= FEWEST and point.value > 0):
            raise ValueError(f"point {tuple(point)}: expected {FEWEST} ranks or more, and a value above 0")
        labels.setdefault(point.label, []).append(point)
    if len(labels) > len(_MARKERS):
        raise ValueError(f"points with {len(labels)} labels: expected at most {len(_MARKERS)}")
    return labels


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"Bytes over a link in a star all-reduce of {bytes_text(choice.bytes)}, against the number of ranks: "
        "a straight line that rises for the root and a level one for each other rank, both marked at "
        f"{choice.ranks:,} ranks."
    )


# --- the numbers beside it ---


def readout(choice: Choice, points: Sequence[Point] = ()) -> Readout:
    """The picture in numbers, for the root's link and for another rank's."""
    links = carried(choice.bytes, choice.ranks)
    rows = [
        ("", *_LINES),
        ("comes in", *(size(link.received) for link in links)),
        ("goes out", *(size(link.sent) for link in links)),
        ("together", *(size(link.total) for link in links)),
        ("in bytes", *(f"{link.total:,}" for link in links)),
        (f"at {rate_text(choice.rate)}", *(duration(link.total / choice.rate) for link in links)),
    ]
    return Readout(rows, _notes(choice, points))


def _notes(choice: Choice, points: Sequence[Point]) -> list[str]:
    root, other = carried(choice.bytes, choice.ranks)
    gradients = {2 * config.parameters: name for name, config in CONFIGS.items()}
    what = f", the gradients of {gradients[choice.bytes]} in bf16" if choice.bytes in gradients else ""
    notes = [
        f"{choice.ranks:,} ranks, each with a tensor of {bytes_text(choice.bytes)}{what}; links of "
        f"{rate_text(choice.rate)} = {size(choice.rate)}/s in each direction. MB = 10⁶ bytes, MiB = 2²⁰.",
        f"The root's link carries {root.total // other.total:,} times what another rank's does. The times "
        "are those of the bytes alone, first in, then out: no latency, and nothing for adding up.",
    ]
    # How many there are depends on what was measured, and a stored notebook's text must not.
    if points:
        notes.append("Measured points beyond the picture's edges are not shown.")
    return notes


# --- the sliders ---


def explorer(points: Sequence[Point] = (), start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget, with measured points on its axes."""
    stops = {
        "ranks": {n: f"{n:,}" for n in stops_with(_RANKS, start.ranks)},
        "bytes": {number: bytes_text(number) for number in stops_with(_TENSORS, start.bytes)},
        "rate": {rate: rate_text(rate) for rate in stops_with(_RATES, start.rate)},
    }
    controls = {
        name: selection(texts, getattr(start, name), _DESCRIPTIONS[name])
        for name, texts in stops.items()
    }
    points = list(points)
    return Explorer(Drawing(points), controls, Choice, partial(readout, points=points))


_DESCRIPTIONS = {"ranks": "ranks N", "bytes": "tensor", "rate": "rate of each link"}
_RANKS = [*range(FEWEST, 17), 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, MOST]
# Powers of two from 1 MiB up, and the gradients of known models in 16 bits.
_TENSORS = sorted([*(1 << n for n in range(20, 34)), *(2 * config.parameters for config in CONFIGS.values())])
_RATES = [rate * 1e6 / 8 for rate in (100, 400, 1000, 10_000, 25_000, 100_000, 200_000, 400_000)]
