"""How losses fall: one curve as a line, others as marks, so that curves which agree are seen to agree.

A pure function from numbers to a figure.  matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.pictures import Picture

_MARKS = "o^xs"  # in black: the course's colors stand for other things
_MOST_MARKS = 30
_ROOM = 5  # times the line's highest loss: up to there a curve is followed


def loss_curves(curves: Mapping[str, Sequence[float]], title: str, loss: str) -> Picture:
    """Draw losses over steps, on a logarithmic scale: the first curve as a line, up to four more as marks.

    ``curves``: label -> loss after each step, above 0.  ``loss``: what it is called, with its unit.  A loss
    that is infinite, no number, or far above all of the first curve's, leaves the picture, and the legend
    says at which step.  Raises ValueError for no curve, too many, or a first one that is not all finite and
    above 0.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    from course_lib.pictures import page_wide

    if not 1 <= len(curves) <= 1 + len(_MARKS):
        raise ValueError(f"curves={list(curves)}: expected 1 to {1 + len(_MARKS)} of them")
    (first, line), *others = curves.items()
    if not line or not all(0 < loss < math.inf for loss in line):
        raise ValueError(f"curves[{first!r}]: expected losses that are all finite and above 0")
    drawing = page_wide(3.6, _description(title, curves, loss))
    axes = drawing.add_subplot()
    axes.plot(_steps(line), line, color="#6E6E6E", lw=2, label=first)
    highest = _ROOM * max(line)
    for (label, losses), mark in zip(others, _MARKS, strict=False):
        seen = _followed(losses, highest)
        label += "" if len(seen) == len(losses) else f" (leaves at step {len(seen) + 1})"
        axes.plot(_steps(seen), seen, mark, color="black", ms=5, markerfacecolor="none", label=label,
                  markevery=math.ceil(len(seen) / _MOST_MARKS) or 1)  # fmt: skip
    axes.set(xlabel="step", ylabel=loss, yscale="log", xlim=(0, None))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", frameon=False, fontsize=9)  # losses fall, so there is room
    return drawing


def _description(title: str, curves: Mapping[str, Sequence[float]], loss: str) -> str:
    first, *others = curves
    marks = f", and as marks {', '.join(others)}" if others else ""
    return f"{title}: {loss} over steps, on a logarithmic scale. As a line {first}{marks}."


def _steps(losses: Sequence[float]) -> range:
    return range(1, len(losses) + 1)


def _followed(losses: Sequence[float], highest: float) -> list[float]:
    """The losses up to the first one that is too high to draw, or no number."""
    seen = []
    for loss in losses:
        if not 0 < loss <= highest:
            break
        seen.append(loss)
    return seen
