"""The pictures of lesson 04: bytes on a link, times beside the limit, and what a fit says.

Pure functions from numbers to a figure, so that a lesson can draw what it has just counted or measured.
matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib import cost_model
from course_lib.arguments import one_of
from course_lib.palette import color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course_lib.cost_model import Fit
    from course_lib.pictures import Looks, Picture

_FONT_SIZE = 9  # points
_MIB = 2**20
_EDGE: Looks = {"markeredgecolor": "black", "markeredgewidth": 0.8}
_COLOR = color_of("communication")
_LINKS: dict[str, tuple[str, Looks, str]] = {  # algorithm -> what is drawn, line, mark
    "star": ("star's root, in and then out: 2(N−1)", {"color": "black", "ls": "-"}, "*"),
    "unchunked-ring": ("un-chunked ring, each direction: N−1", {"color": _COLOR, "ls": "--"}, "P"),
    "ring": ("ring, each direction: 2(N−1)/N", {"color": _COLOR, "ls": "-", "lw": 2.4}, "o"),
}


def bytes_on_a_link(counted: Mapping[str, Mapping[int, float]]) -> Picture:
    """Draw what the busiest link carries, in tensors, over the number of ranks: all of it, and the ring's.

    ``counted``: algorithm (star, unchunked-ring, ring) -> ranks -> tensors counted, drawn as points on the
    lines of the formulas.  Raises ValueError for another algorithm, and where there is no point.
    """
    from course_lib.pictures import page_wide

    for name in counted:
        one_of("algorithm", name, _LINKS)
    most = max((ranks for points in counted.values() for ranks in points), default=0)
    if not most:
        raise ValueError(f"counted={counted!r}: expected points")
    drawing = page_wide(
        3.7, "Tensors over the busiest link against the number of ranks, counted points on the lines of the "
        "formulas. Left: lines that rise without end for the star and the un-chunked ring, the ring's far "
        "below. Right: the ring's alone, which bends and stays below 2.")  # fmt: skip
    left, right = drawing.subplots(1, 2, width_ratios=(1.2, 1))
    for name, points in counted.items():
        _draw_link(left, name, points, most)
    _draw_link(right, "ring", counted.get("ring", {}), most)
    right.axhline(2, color="black", ls=":", lw=1.2)
    right.annotate("2: never reached", (most, 2), xytext=(0, 3), textcoords="offset points", ha="right",
                   va="bottom", fontsize=_FONT_SIZE)  # fmt: skip
    for axes, title in ((left, "all three"), (right, "the ring alone")):
        axes.set_xlim(0, most * 1.04)
        axes.set_ylim(0, None)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("ranks N")
        axes.set_xticks(sorted({ranks for points in counted.values() for ranks in points}))
        axes.set_title(title, loc="left", fontsize=10)
    right.set_ylim(0, 2.3)
    left.set_ylabel("tensors over the busiest link")
    left.legend(loc="upper left", frameon=False, fontsize=_FONT_SIZE)
    return drawing


def _draw_link(axes: Axes, name: str, points: Mapping[int, float], most: int) -> None:
    label, line, mark = _LINKS[name]
    worlds = range(1, most + 1)
    axes.plot(worlds, [cost_model.terms(name, ranks).tensors for ranks in worlds], **line)
    axes.plot(list(points), list(points.values()), mark, color=line["color"], ms=8, clip_on=False, **_EDGE)
    axes.plot([], [], marker=mark, ms=8, **line, **_EDGE, label=label)


def beside_the_limit(
    seconds: Mapping[tuple[str, int], float], limits: Mapping[int, float], title: str
) -> Picture:
    """Draw a bar for each measured time, grouped by ranks, with the least possible time of each group.

    ``seconds``: (algorithm, ranks) -> seconds.  ``limits``: ranks -> seconds.  Bars are in the order of
    ``seconds``, groups in that of ``limits``.  Raises ValueError for ranks without a limit, or without a bar.
    """
    from course_lib.pictures import page_wide

    groups = {ranks: [key for key in seconds if key[1] == ranks] for ranks in limits}
    if sum(map(len, groups.values())) != len(seconds) or not all(groups.values()):
        raise ValueError(f"limits={dict(limits)!r}: expected one for each number of ranks in seconds")
    rows = len(seconds) + len(groups)
    drawing = page_wide(
        0.9 + 0.27 * rows, f"{_names(seconds)}: a bar for the time of each on {_listed(limits)} ranks, with "
        "the least possible time as a line through each group. The ring's bars end next to it.")  # fmt: skip
    axes = drawing.add_subplot()
    longest, row, ticks = max(seconds.values()), 0, {}
    for ranks, keys in groups.items():
        limit = limits[ranks]
        axes.plot([limit, limit], [row - 0.5, row + len(keys) - 0.5], color="black", lw=1.6, zorder=3)
        axes.text(limit, row - 0.55, f"{ranks} ranks, limit {limit:.2f} s", fontsize=_FONT_SIZE, va="bottom")
        for name, _ in keys:
            time = seconds[name, ranks]
            axes.barh(row, time, 0.74, color=_COLOR, zorder=2)
            axes.text(max(time, limit) + 0.01 * longest, row, f"{time:.2f} s, {time / limit:.2f} × the limit",
                      va="center", fontsize=_FONT_SIZE)  # fmt: skip
            ticks[row] = name
            row += 1
        row += 1
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=_FONT_SIZE)
    axes.set(xlim=(0, 1.38 * longest), ylim=(row - 1.4, -1.3), xlabel="time of one all-reduce (s)")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=10, wrap=True)
    return drawing


def fitted(
    measured: Mapping[str, Mapping[int, float]], fits: Mapping[str, Fit], ranks: int, title: str
) -> Picture:
    """Draw times of the ring over the size of the tensor, and the line of each fit.

    ``measured``: label -> bytes -> seconds; ``fits``: the same labels -> what was fitted to them.
    Raises ValueError where their labels differ.
    """
    from course_lib.pictures import page_wide

    if measured.keys() != fits.keys():
        raise ValueError(f"fits={list(fits)}: expected the labels of measured, {list(measured)}")
    drawing = page_wide(
        3.9, f"Times of the ring on {ranks} ranks over the size of the tensor, on {len(measured)} "
        "kinds of links: points, and the line fitted to each. It begins at the time of the messages alone.",
    )  # fmt: skip
    axes = drawing.add_subplot()
    end = 1.1 * max(size for points in measured.values() for size in points)
    for (label, points), mark in zip(measured.items(), "os^D", strict=False):
        line = [cost_model.all_reduce_seconds("ring", size, ranks, fits[label].latency, fits[label].bandwidth)
                for size in (0, round(end))]  # fmt: skip
        axes.plot([0, end / _MIB], line, color="black", lw=1)
        axes.plot([size / _MIB for size in points], list(points.values()), mark, color=_COLOR, ms=7, **_EDGE,
                  clip_on=False, label=label)  # fmt: skip
    axes.set(xlim=(0, end / _MIB), xlabel="size of the tensor (MiB)", ylabel="time of one all-reduce (s)")
    axes.set_ylim(0, None)
    axes.spines[["top", "right"]].set_visible(False)
    # Below, since labels that say where points were recorded are nearly as wide as the page.
    drawing.legend(loc="outside lower center", ncols=1, frameon=False, fontsize=_FONT_SIZE)
    axes.set_title(title, loc="left", fontsize=10)
    return drawing


def _names(seconds: Mapping[tuple[str, int], float]) -> str:
    return ", ".join(dict.fromkeys(name for name, _ in seconds))


def _listed(numbers: Sequence[int] | Mapping[int, float]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
