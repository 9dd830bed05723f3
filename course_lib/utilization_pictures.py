"""Where the peak goes: a picture of lesson 07, from numbers to a figure.

matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.palette import HATCH_COLOR, IDLE_HATCH, color_of
from course_lib.utilization import Parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course_lib.pictures import Looks, Picture

_FONT_SIZE = 9  # points
_BAR_HEIGHT = 0.7  # of a row


def _plain(color: str) -> dict:
    """With an outline of its own color, so that thin bars are seen."""
    return {"facecolor": color, "edgecolor": color, "linewidth": 1}


_LOOKS: dict[str, Looks] = {
    "peak": {"facecolor": "#FFFFFF", "edgecolor": "black", "linewidth": 1},
    "compute below peak": {"facecolor": "#FFFFFF", "edgecolor": color_of("compute"), "hatch": "xxx"},
    "slowed by communication": {
        "facecolor": "#FFFFFF", "edgecolor": color_of("communication"), "hatch": "xxx"},
    "exposed communication": _plain(color_of("communication")),
    "optimizer": _plain(color_of("optimizer state")),
    "data": _plain("#6E6E6E"),
    "idle": {"facecolor": color_of("idle"), "edgecolor": HATCH_COLOR, "hatch": IDLE_HATCH, "linewidth": 1},
    "unexplained": {"facecolor": "#FFFFFF", "edgecolor": "black", "linestyle": ":", "linewidth": 1},
    "achieved": _plain(color_of("compute")),
}


def waterfall(parts: Parts, title: str) -> Picture:
    """Draw what takes a step from peak down to U: a bar for each part, beginning where the last one ends.

    ``title`` should say where and when it was measured, in one line or two.  A part below 0, as
    ``unexplained`` may be, goes back up.  Beside each bar are its share of the step, and its seconds.
    """
    from course_lib.pictures import page_wide

    shares = parts.shares()
    drawing = page_wide(
        3.6, f"{', '.join(title.splitlines())}: a waterfall of bars from the peak, 100%, down to the "
        "utilization that was achieved. "
        f"On the way: {', '.join(list(shares)[:-1])}.")  # fmt: skip
    axes = drawing.add_subplot()
    rows = {"peak": 1.0, **shares}
    right, ends = 1.0, [0.0, 1.0]
    for row, (name, share) in enumerate(rows.items()):
        left = 0.0 if name in ("peak", "achieved") else right - share
        axes.barh(row, share, _BAR_HEIGHT, left=left, **_LOOKS[name])
        ends += [left, left + share]
        _write(axes, row, share, share * parts.step)
        right = right if name == "peak" else left
        if name not in ("achieved", "unexplained"):
            between = row + _BAR_HEIGHT / 2, row + 1 - _BAR_HEIGHT / 2
            axes.plot([right, right], between, color="black", lw=0.8)
    axes.set(xlim=(min(ends), max(ends)), ylim=(len(rows) - 0.5, -0.5), xlabel="share of the peak (%)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
    names = {**dict.fromkeys(rows), "achieved": "achieved: U"}
    axes.set_yticks(range(len(rows)), [names[name] or name for name in rows], fontsize=_FONT_SIZE)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, fontsize=_FONT_SIZE + 1, loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return drawing


def _write(axes: Axes, row: int, share: float, seconds: float) -> None:
    """Beside the axes."""
    size = round(abs(seconds), 3)
    time = f"{seconds:.2f} s" if size >= 1 else f"{1000 * seconds:.{0 if size >= 0.1 else 1}f} ms"
    text = f"{100 * share:.1f}%, {time}".replace("-", "−")
    axes.text(1.02, row, text, va="center", fontsize=_FONT_SIZE, transform=axes.get_yaxis_transform())
