"""What each rank did when: recorded inside ranks, or simulated, and drawn one row a rank.

    def step():
        record = timeline.Recorder()
        with record("compute", "forward"):
            ...
        return record.spans

    spans = [span for spans in ranks.run(step, 4) for span in spans]
    display(timeline.figure(spans, "Measured in this run"))

matplotlib is imported only when a figure is drawn, so ranks that record need not wait for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.palette import COLORS, HATCH_COLOR, IDLE_HATCH, color_of, ink_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from course_lib.pictures import Picture

_ROW_HEIGHT = 0.42  # inches
_BAR_HEIGHT = 0.7  # of a row
_FONT_SIZE = 9  # points
_LABEL_MARGIN = 6  # points, left and right of a label together
_AXES_WIDTH = 6.8  # inches, about; the rest is for the names of the ranks


@dataclass(frozen=True)
class Span:
    """One rank did one thing from ``start`` to ``end``, in seconds on a clock that all ranks share.

    ``kind`` is one of palette.COLORS and decides the color; ``label`` says what it was.  Raises ValueError
    for an unknown kind, or an end before the start.
    """

    rank: int
    kind: str
    label: str
    start: float
    end: float

    def __post_init__(self) -> None:
        color_of(self.kind)
        if not self.end >= self.start:
            raise ValueError(f"end={self.end!r}: expected a time not before start={self.start!r}")

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Recorder:
    """Records what this rank does: ``with record("compute", "forward"): ...`` adds a Span to ``spans``.

    The clock is that of the machine, so spans of its ranks can be compared; those of another machine's
    can't.  It is the processor's view: a GPU may still work on what a block has only started.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        self._rank = dist.get_rank()
        self.spans: list[Span] = []

    @contextmanager
    def __call__(self, kind: str, label: str = "") -> Iterator[None]:
        """Record the block as one span, even if it raises.  Raises ValueError at once for an unknown kind."""
        color_of(kind)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spans.append(Span(self._rank, kind, label, start, time.perf_counter()))


def figure(spans: Sequence[Span], title: str) -> Picture:
    """Draw spans over time, one row a rank, rank 0 on top; time starts with the earliest span.

    ``title`` should say whether the spans were measured, and where, or simulated.  Raises ValueError without
    spans.  Nothing but the returned figure is touched.
    """
    from course_lib.pictures import page_wide

    if not spans:
        raise ValueError("spans=[]: expected at least one span to draw")
    ranks, kinds = sorted({span.rank for span in spans}), _kinds(spans)
    drawing = page_wide(
        1.3 + _ROW_HEIGHT * len(ranks),
        f"Timeline, {len(ranks)} ranks: {title}. Shown: {', '.join(kinds)}.",
    )
    axes = drawing.add_subplot()
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    scale, unit = (1000, "ms") if end - begin < 1 else (1, "s")
    length = max(scale * (end - begin), 1e-9)  # all spans may be empty
    for span in spans:
        _draw(axes, span, ranks.index(span.rank), begin, scale, length)
    axes.set(xlim=(0, length), ylim=(len(ranks) - 0.5, -0.5), xlabel=f"time ({unit})")
    axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
    axes.set_title(title, fontsize=_FONT_SIZE + 1, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    _add_legend(drawing, kinds)
    return drawing


def _draw(axes: Axes, span: Span, row: int, begin: float, scale: float, length: float) -> None:
    color = color_of(span.kind)
    left, width = scale * (span.start - begin), scale * span.seconds
    # The outline keeps a span visible that is too short for its width to be seen.
    axes.barh(row, width, left=left, height=_BAR_HEIGHT, color=color, edgecolor=color, linewidth=1)
    if span.kind == "idle":
        axes.barh(row, width, left=left, height=_BAR_HEIGHT, fill=False, hatch=IDLE_HATCH,
                  edgecolor=HATCH_COLOR, linewidth=0)  # fmt: skip
    if _label_width(span.label) < _AXES_WIDTH * width / length:
        background = {"facecolor": color, "edgecolor": "none", "pad": 1.5}
        axes.text(left + width / 2, row, span.label, ha="center", va="center", fontsize=_FONT_SIZE,
                  color=ink_on(color), bbox=background)  # fmt: skip


def _label_width(label: str) -> float:
    """Inches that a label takes in a bar; infinite for one without anything to see."""
    from matplotlib.textpath import TextPath

    width = TextPath((0, 0), label, size=_FONT_SIZE).get_extents().width if label.strip() else math.inf
    return (width + _LABEL_MARGIN) / 72


def _kinds(spans: Sequence[Span]) -> list[str]:
    """The kinds that occur, in the palette's order."""
    present = {span.kind for span in spans}
    return [kind for kind in COLORS if kind in present]


def _add_legend(drawing: Figure, kinds: list[str]) -> None:
    from matplotlib.patches import Patch

    idle = {"edgecolor": HATCH_COLOR, "hatch": IDLE_HATCH, "linewidth": 0}
    patches = [
        Patch(facecolor=color_of(kind), label=kind, **(idle if kind == "idle" else {})) for kind in kinds
    ]
    drawing.legend(handles=patches, loc="outside lower center", ncols=min(4, len(patches)), frameon=False,
                   fontsize=_FONT_SIZE)  # fmt: skip
