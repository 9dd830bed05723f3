"""Draws spans over time: a row for each rank, and one below it for what goes on beside its computing.

matplotlib is imported only when a figure is drawn, so ranks that record need not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING

from course_lib.palette import COLORS, HATCH_COLOR, IDLE_HATCH, color_of, ink_on
from course_lib.timeline.spans import LANES, Span, in_tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from course_lib.pictures import Looks, Picture

_ROW_HEIGHT = 0.42  # inches
_BAR_HEIGHT = 0.7  # of a row
_NEXT_LANE = 0.78  # rows from a rank's lane to its next one
_PASS_HEIGHT = 0.45  # of a row: the line over forward and backward passes, and its name
_FONT_SIZE = 9  # points
_SMALL_FONT_SIZE = 7.5
_IN_TIME = {"optimizer state": "optimizer"}  # its step, and not what it keeps
_LABEL_MARGIN = 6  # points, left and right of a label together
_AXES_WIDTH = 6.8  # inches, about; the rest is for the names of the ranks
_NARROW = 0.003  # of the axes: up to there an outline makes a bar seen, above it sets bars apart
_PASSES = ("forward", "backward")


@dataclass(frozen=True)
class _Row:
    """Spans that are drawn beside each other, ``at`` so many rows from the top."""

    name: str
    at: float
    spans: Sequence[Span]


@dataclass(frozen=True)
class _Scale:
    """From seconds on the clock to places on the axis, which ends at ``length``."""

    begin: float
    factor: float
    length: float

    def place(self, span: Span) -> tuple[float, float]:
        """Where the span begins, and how wide it is."""
        return self.factor * (span.start - self.begin), self.factor * span.seconds

    def holds(self, text: str, width: float, font_size: float = _FONT_SIZE) -> bool:
        digits_alike = re.sub(r"\d", "0", text)  # or of equal bars those with a 1 would be named, no others
        return _text_width(digits_alike, font_size) < _AXES_WIDTH * width / self.length


def figure(spans: Iterable[Span], title: str) -> Picture:
    """Draw spans over time, one row a rank, rank 0 on top; time starts with the earliest span.

    What goes on beside a rank's computing has a row of its own below, and so have spans that overlap others
    of their lane.  A name is written where its bar can hold it.  Over the layers of a module, lines show the
    forward and backward passes.

    ``title`` should say whether the spans were measured, and where, or simulated.  Raises ValueError without
    spans.  Nothing but the returned figure is touched.
    """
    spans = list(spans)
    if not spans:
        raise ValueError("spans=[]: expected at least one span to draw")
    names = {rank: f"rank {rank}" for rank in sorted({span.rank for span in spans})}
    lanes = ", communication in a row of its own" if _has_lanes(spans) else ""
    return _drawn(spans, names, title, f"Timeline, {len(names)} ranks{lanes}")


def comparison(runs: Mapping[str, Iterable[Span]], title: str, rank: int = 0) -> Picture:
    """Draw one rank of several runs, one below the other, each from its own beginning; as ``figure`` does.

    ``runs``: the spans of each, by the name that stands beside its row.  Raises ValueError without runs, and
    for a run that has no spans of the rank.
    """
    if not runs:
        raise ValueError("runs={}: expected at least one run to draw")
    spans = [span for place, (name, run) in enumerate(runs.items())
             for span in _alone(name, run, rank, place)]  # fmt: skip
    what = f"Timelines of rank {rank} in {len(runs)} runs, one below the other"
    return _drawn(spans, dict(enumerate(runs)), title, what)


def _alone(name: str, run: Iterable[Span], rank: int, place: int) -> list[Span]:
    """One rank's spans, from 0 s on, as if its rank were ``place``."""
    own = [span for span in run if span.rank == rank]
    if not own:
        raise ValueError(f"rank={rank!r}: expected a rank with spans in each run, and {name!r} has none")
    begin = min(span.start for span in own)
    return [replace(span, rank=place, start=span.start - begin, end=span.end - begin) for span in own]


def _drawn(spans: Sequence[Span], names: Mapping[int, str], title: str, what: str) -> Picture:
    from course_lib.pictures import page_wide

    rows, kinds = list(_rows(spans, names)), _kinds(spans)
    height = rows[-1].at - min(0, rows[0].at) + 1
    shown = ", ".join(map(_label, kinds))
    drawing = page_wide(1.3 + _ROW_HEIGHT * height, f"{what}: {title}. Shown: {shown}.")
    axes = drawing.add_subplot()
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    factor, unit = (1000, "ms") if end - begin < 1 else (1, "s")
    scale = _Scale(begin, factor, max(factor * (end - begin), 1e-9))  # all spans may be empty
    for row in rows:
        _draw_row(axes, row, scale)
    top = -0.5 - _PASS_HEIGHT * any(_passes(rows[0].spans))
    axes.set(xlim=(0, scale.length), ylim=(rows[-1].at + 0.5, top), xlabel=f"time ({unit})")
    named = [row for row in rows if row.name]
    axes.set_yticks([row.at for row in named], [row.name for row in named], fontsize=_FONT_SIZE)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, fontsize=_FONT_SIZE + 1, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    _add_legend(drawing, kinds)
    return drawing


def _rows(spans: Sequence[Span], names: Mapping[int, str]) -> Iterator[_Row]:
    """From top to bottom, the first one at 0; ``names`` of the ranks, in their order."""
    below = 0.0
    for rank, of_rank in names.items():
        for lane in LANES:
            in_lane = [span for span in spans if (span.rank, span.lane) == (rank, lane)]
            for number, track in enumerate(in_tracks(in_lane)):
                at = below + _PASS_HEIGHT * (below > 0 and any(_passes(track)))
                name = of_rank if lane == LANES[0] else lane
                yield _Row("" if number else name, at, track)
                below = at + (_NEXT_LANE if _has_lanes(spans) else 1)
        below += 1 - _NEXT_LANE if _has_lanes(spans) else 0


def _has_lanes(spans: Sequence[Span]) -> bool:
    return any(span.lane != LANES[0] for span in spans)


def _draw_row(axes: Axes, row: _Row, scale: _Scale) -> None:
    crowded = _is_crowded(row.spans, scale)
    for span in row.spans:  # what lies within another comes after it
        _draw(axes, span, row.at, scale, crowded)
    for name, start, end in _passes(row.spans):
        left, width = scale.place(Span(0, "compute", name, start, end))
        top = row.at - _BAR_HEIGHT / 2 - 0.1
        axes.plot([left, left + width], [top, top], color="black", lw=0.8, solid_capstyle="butt")
        if scale.holds(name, width, _SMALL_FONT_SIZE):
            axes.text(left + width / 2, top - 0.05, name, ha="center", va="bottom", fontsize=_SMALL_FONT_SIZE)


def _is_crowded(spans: Sequence[Span], scale: _Scale) -> bool:
    """Whether a bar can hold its short name only: then all of its row get theirs, so that they look alike."""
    widths = ((_labels(span), scale.place(span)[1]) for span in spans)
    return any(scale.holds(names[-1], width) and not scale.holds(names[0], width) for names, width in widths)


def _draw(axes: Axes, span: Span, row: float, scale: _Scale, crowded: bool) -> None:
    color = color_of(span.kind)
    left, width = scale.place(span)
    apart = width > _NARROW * scale.length and (_pass_of(span) or span.lane != LANES[0])
    edge = "white" if apart else color
    axes.barh(row, width, left=left, height=_BAR_HEIGHT, color=color, edgecolor=edge, linewidth=1)
    if span.kind == "idle":
        axes.barh(row, width, left=left, height=_BAR_HEIGHT, fill=False, hatch=IDLE_HATCH,
                  edgecolor=HATCH_COLOR, linewidth=0)  # fmt: skip
    label = _labels(span)[-1 if crowded else 0]
    if scale.holds(label, width):
        background = {"facecolor": color, "edgecolor": "none", "pad": 1.5}
        axes.text(left + width / 2, row, label, ha="center", va="center", fontsize=_FONT_SIZE,
                  color=ink_on(color), bbox=background)  # fmt: skip


def _labels(span: Span) -> list[str]:
    """What to write in the bar, the longest first: the pass is written over it, and "3" means bucket 3."""
    if _pass_of(span):
        name = span.label.partition(" ")[2]
        return [name, name.rpartition(".")[2]]
    kind, _, number = span.label.rpartition(" ")
    return [span.label, number] if kind == "bucket" else [span.label]


def _pass_of(span: Span) -> str:
    """``forward`` or ``backward`` for a layer's span, else nothing."""
    first, space, _ = span.label.partition(" ")
    return first if space and first in _PASSES and span.kind == "compute" else ""


def _passes(spans: Sequence[Span]) -> Iterator[tuple[str, float, float]]:
    """Name, start and end of each run of layers that go the same way."""
    layers = [span for span in spans if _pass_of(span)]
    for (_, name), run in groupby(layers, key=lambda span: (span.step, _pass_of(span))):
        of_pass = list(run)
        yield name, of_pass[0].start, max(span.end for span in of_pass)


@lru_cache(maxsize=1000)
def _text_width(text: str, font_size: float) -> float:
    """Inches that a label takes in a bar; infinite for one without anything to see."""
    from matplotlib.textpath import TextPath

    width = TextPath((0, 0), text, size=font_size).get_extents().width if text.strip() else inf
    return (width + _LABEL_MARGIN) / 72


def _kinds(spans: Sequence[Span]) -> list[str]:
    """The kinds that occur, in the palette's order."""
    present = {span.kind for span in spans}
    return [kind for kind in COLORS if kind in present]


def _label(kind: str) -> str:
    return _IN_TIME.get(kind, kind)


def _add_legend(drawing: Figure, kinds: list[str]) -> None:
    from matplotlib.patches import Patch

    idle: Looks = {"edgecolor": HATCH_COLOR, "hatch": IDLE_HATCH, "linewidth": 0}
    patches = [
        Patch(facecolor=color_of(kind), label=_label(kind), **(idle if kind == "idle" else {}))
        for kind in kinds
    ]
    drawing.legend(handles=patches, loc="outside lower center", ncols=min(4, len(patches)), frameon=False,
                   fontsize=_FONT_SIZE)  # fmt: skip
