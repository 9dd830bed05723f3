"""Explorer of lesson 08: a step on up to 4,096 ranks, some of them late, with one slow link in their ring.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what ``simulator.simulate_cluster`` says of some layers, measured ones or computed ones, and steps that were
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, floor, log10
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from course_lib.arguments import number, whole_number
from course_lib.explorers.fast_canvas import layer_on_top, log_axis
from course_lib.explorers.measured_points import MeasuredPoints
from course_lib.explorers.overlap import COMPUTED, LEAST_MB, MOST_MB, MOST_MICRO_BATCHES, Work
from course_lib.explorers.units import duration, rate_text
from course_lib.explorers.widget import Explorer, LiveReadout, Readout, selection
from course_lib.palette import HATCH_COLOR, IDLE_HATCH, color_of
from course_lib.pictures import Looks, Picture
from course_lib.ring_drawing import FONT, WIDTH, sheet
from course_lib.simulator import LEFT_OUT, MOST_RANKS, Cluster, Link, simulate_cluster

FEWEST_RANKS, MOST_SLOWER, MOST_JITTER = 2, 1000.0, 0.5
STEPS, SEED = 5, 0


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand.

    ``ranks`` N; ``rate``: bytes/s of each link in one direction; ``bucket_mb``: MiB of each bucket;
    ``micro_batches`` K.  ``slower``: one link carries so many times less.  ``jitter``: of what
    ranks compute, as in ``simulate_cluster``.  Raises ValueError for what is not on the sliders, or can't
    be.
    """

    ranks: int = 64
    rate: float = 50e6
    bucket_mb: float = 1.0
    micro_batches: int = 1
    slower: float = 1.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        number("ranks", whole_number("ranks", self.ranks), FEWEST_RANKS, MOST_RANKS)
        number("rate", self.rate)
        number("bucket_mb", self.bucket_mb, LEAST_MB, MOST_MB)
        number("micro_batches", whole_number("micro_batches", self.micro_batches), 1, MOST_MICRO_BATCHES)
        number("slower", self.slower, 1, MOST_SLOWER)
        number("jitter", self.jitter, 0, MOST_JITTER)

    def cluster(self, work: Work, ranks: int | None = None, alike: bool = False) -> Cluster:
        """``STEPS`` of them; on other ``ranks``, or with nothing late or slow."""
        slow_link = None if alike else Link(work.latency, self.rate / self.slower)
        return simulate_cluster(
            work.layers, ranks or self.ranks, Link(work.latency, self.rate), slow_link=slow_link,
            jitter=0.0 if alike else self.jitter, steps=1 if alike else STEPS, seed=SEED,
            bucket_mb=self.bucket_mb, first_bucket_mb=self.bucket_mb, micro_batches=self.micro_batches,
            optimizer_seconds=work.optimizer_seconds,
        )  # fmt: skip


class Point(NamedTuple):
    """A measured step, and the one that was predicted from what layers take on so many ranks at once.

    ``rate`` in bytes/s, ``bucket_mb`` in MiB.
    """

    implementation: str
    ranks: int
    rate: float
    bucket_mb: float
    micro_batches: int
    seconds: float
    predicted: float


# --- the picture ---

_HEIGHT = 4.4  # inches, as are all lengths of the sheet
_LEFT, _WIDE, _BETWEEN, _TOP, _BOTTOM = 0.72, 2.92, 0.6, 0.36, 3.0
_WORLDS = [2**power for power in range(1, 13)]
_RANK_TICKS = {ranks: f"{ranks:,}" for ranks in (2, 8, 32, 128, 512, 4096)}
_BEYOND = 1.25  # axes go so much further than what they show
_SIMULATED: Looks = {"color": "black", "linewidth": 2}
_ALIKE: Looks = {"color": color_of("communication"), "linewidth": 1.6, "linestyle": "--"}
_ALONE: Looks = {"color": color_of("compute"), "linewidth": 2}
_SPAN: Looks = {"facecolor": "#00000022", "linewidth": 0}
_ITS_PREDICTION: Looks = {"marker": "_", "markersize": 13, "markeredgewidth": 1.5, "linestyle": "none",
                          "color": "black"}  # fmt: skip
_HERE: Looks = {"color": "#5A5A5A", "linewidth": 0.8}
_SHARES: dict[str, Looks] = {
    "exposed communication": {"facecolor": color_of("communication"), "linewidth": 0},
    "waiting for late ranks": {"facecolor": color_of("idle"), "hatch": IDLE_HATCH,
                               "edgecolor": HATCH_COLOR, "linewidth": 0},
    "computing, and the optimizer": {"facecolor": color_of("compute"), "linewidth": 0},
}  # fmt: skip


def figure(choice: Choice, work: Work = COMPUTED, points: Sequence[Point] = ()) -> Picture:
    """Draw the time of a step and its shares over the number of ranks, which is logarithmic.

    On the left also the step of ranks and links that are all alike.  Points were measured on such ranks and
    links, so they are shown without jitter and slow link, with their own rate, buckets and micro-batches.
    Raises ValueError for points of too many implementations.
    """
    drawing = Drawing(work, points)
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, work: Work = COMPUTED, points: Sequence[Point] = ()):
        self._work = work
        self.figure, _ = sheet(_HEIGHT)
        left, right = (self.figure.add_axes(_panel(n)) for n in range(2))
        for axes, title in ((left, "time of a step"), (right, "what the time goes to (% of it)")):
            log_axis(axes.xaxis, FEWEST_RANKS / _BEYOND, MOST_RANKS * _BEYOND, _RANK_TICKS)
            axes.set_ylim(0, 1)
            axes.tick_params(labelsize=FONT)
            axes.set_xlabel("ranks N", fontsize=FONT)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_title(title, loc="left", fontsize=FONT)
        self._times, self._shares = _Times(left, points), _Shares(right)
        self._here = [axes.axvline(0, **_HERE) for axes in (left, right)]
        self.changing = layer_on_top([*self._times.changing, *self._shares.changing, *self._here])
        _draw_keys(self.figure, self._times.measured.keys)

    def show(self, choice: Choice) -> None:
        clusters = [choice.cluster(self._work, ranks) for ranks in _WORLDS]
        alike = [choice.cluster(self._work, ranks, alike=True) for ranks in _WORLDS]
        self._times.show(choice, clusters, alike)
        self._shares.show(clusters)
        for line in self._here:
            line.set_xdata(2 * [log10(choice.ranks)])
        self.figure.description = description(choice)


def _panel(column: int) -> tuple[float, float, float, float]:
    left = _LEFT + column * (_WIDE + _BETWEEN)
    return left / WIDTH, 1 - _BOTTOM / _HEIGHT, _WIDE / WIDTH, (_BOTTOM - _TOP) / _HEIGHT


_PLACES = [log10(ranks) for ranks in _WORLDS]


class _Times:
    """Seconds of a step, on an axis of whole powers of ten that follows what it shows."""

    def __init__(self, axes: Axes, points: Sequence[Point]):
        self._points = [Point(*point) for point in points]
        axes.set_yticks([])
        self._grid = axes.add_collection(LineCollection([], colors="#E8E8E8", linewidths=0.6))
        self._span = axes.add_patch(Polygon([(0, 0)], **_SPAN))
        self._lines = [axes.plot([], [], **look)[0] for look in (_ALONE, _ALIKE, _SIMULATED)]
        self._predicted = axes.plot([], [], **_ITS_PREDICTION)[0]
        self.measured = MeasuredPoints(axes, (point.implementation for point in self._points))
        beside = axes.get_yaxis_transform()
        self._texts = [axes.text(-0.02, 0, "", ha="right", va="center", fontsize=FONT, transform=beside)
                       for _ in range(_MOST_TICKS)]  # fmt: skip
        self.changing = [self._grid, self._span, *self._lines, self._predicted, *self.measured.artists,
                         *self._texts]  # fmt: skip

    def show(self, choice: Choice, clusters: Sequence[Cluster], alike: Sequence[Cluster]) -> None:
        where = (choice.rate, choice.bucket_mb, choice.micro_batches, choice.slower, choice.jitter)
        shown = [point for point in self._points
                 if (point.rate, point.bucket_mb, point.micro_batches, 1, 0) == where]  # fmt: skip
        alone = [cluster.seconds - cluster.exposed_seconds for cluster in alike]
        curves = [alone, [each.seconds for each in alike], [each.seconds for each in clusters]]
        spans = [[step.seconds for step in each.steps] for each in clusters]
        ends = [min(alone), *map(max, spans), *(p.seconds for p in shown), *(p.predicted for p in shown)]
        least, most = floor(log10(min(ends))), ceil(log10(max(ends)))

        def height(seconds: float) -> float:
            return (log10(seconds) - least) / (most - least)

        for line, curve in zip(self._lines, curves, strict=True):
            line.set_data(_PLACES, list(map(height, curve)))
        low, high = ([height(end(seconds)) for seconds in spans] for end in (min, max))
        self._span.set(xy=[*zip(_PLACES, low, strict=True), *zip(_PLACES[::-1], high[::-1], strict=True)])
        self._predicted.set_data([log10(p.ranks) for p in shown], [height(p.predicted) for p in shown])
        self.measured.show((p.implementation, log10(p.ranks), height(p.seconds)) for p in shown)
        self._write_ticks(least, most)

    def _write_ticks(self, least: int, most: int) -> None:
        every = ceil((most - least + 1) / _MOST_TICKS)
        powers = list(range(least, most + 1, every))
        heights = [(power - least) / (most - least) for power in powers]
        self._grid.set(segments=[[(0, height), (2 * log10(MOST_RANKS), height)] for height in heights])
        for n, text in enumerate(self._texts):
            text.set(y=heights[n] if n < len(powers) else 0,
                     text=_power_of_ten(powers[n]) if n < len(powers) else "")  # fmt: skip


_MOST_TICKS = 7


def _power_of_ten(power: int) -> str:
    """Seconds, as people read them."""
    return duration(10.0**power) if power < 2 else f"{10**power:,} s"


class _Shares:
    """Stacked, all of the step."""

    def __init__(self, axes: Axes):
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
        self.changing = [axes.add_patch(Polygon([(0, 0)], **look)) for look in _SHARES.values()]

    def show(self, clusters: Sequence[Cluster]) -> None:
        exposed = [each.exposed_seconds / each.seconds for each in clusters]
        waits = [share + each.idle_seconds / each.seconds
                 for share, each in zip(exposed, clusters, strict=True)]  # fmt: skip
        ends = [len(clusters) * [0.0], exposed, waits, len(clusters) * [1.0]]
        for area, low, high in zip(self.changing, ends, ends[1:], strict=False):
            area.set(xy=[*zip(_PLACES, low, strict=True), *zip(_PLACES[::-1], high[::-1], strict=True)])


def _draw_keys(drawing: Picture, measured: Sequence[Line2D]) -> None:
    lines: list[Line2D | Patch] = [
        Line2D([], [], label="simulated, median", **_SIMULATED),
        Patch(label="all simulated steps", **_SPAN),
        Line2D([], [], label="ranks and links alike", **_ALIKE),
        Line2D([], [], label="compute alone", **_ALONE),
    ]
    if measured:
        lines += [*measured, Line2D([], [], label="predicted for these", **_ITS_PREDICTION)]
    shares = [Patch(label=name, **look) for name, look in _SHARES.items()]
    for handles, left, columns in ((lines, 0.1, 2), (shares, _LEFT + _WIDE + _BETWEEN - 0.1, 1)):
        drawing.legend(handles=handles, loc="upper left", bbox_to_anchor=(left / WIDTH, 1 - 3.42 / _HEIGHT),
                       ncols=columns, frameon=False, fontsize=FONT, borderaxespad=0, columnspacing=1.0,
                       handletextpad=0.6)  # fmt: skip


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"Simulated steps over the number of ranks, 2 to 4,096: links of {rate_text(choice.rate)}, one of "
        f"them {choice.slower:g} times slower, {choice.jitter:.0%} jitter in what ranks compute, buckets of "
        f"{choice.bucket_mb:g} MiB, micro-batches: {choice.micro_batches}. On the left the time of a step, "
        "beside that of ranks and links that are alike; on the right the shares of exposed communication, of "
        "waiting for late ranks, and of computing."
    )


# --- the numbers beside it ---


def readout(choice: Choice, work: Work = COMPUTED) -> Readout:
    """The choice's ranks in numbers; as a text, without what was measured."""
    both = cluster, _ = choice.cluster(work), choice.cluster(work, alike=True)
    steps = [step.seconds for step in cluster.steps]
    rows = [
        (f"{choice.ranks:,} ranks", "simulated", "all alike"),
        ("step", *(duration(each.seconds) for each in both)),
        ("– shortest and longest", f"{duration(min(steps))}, {duration(max(steps))}", ""),
        ("exposed communication", *(duration(each.exposed_seconds) for each in both)),
        ("waiting for late ranks", *(duration(each.idle_seconds) for each in both)),
        ("exposed, of the step", *(f"{each.exposed_seconds / each.seconds:.0%}" for each in both)),
        ("waiting, of the step", *(f"{each.idle_seconds / each.seconds:.0%}" for each in both)),
    ]
    notes = [
        f"{sum(len(step.paced_by) for step in cluster.steps)} all-reduces in {STEPS} steps. {_pace(cluster)}",
        f"From {work.origin}. The time that a rank computes is drawn for each step: its logarithm has a "
        f"standard deviation of {choice.jitter:g}.",
        f"Left out: {'; '.join(LEFT_OUT)}.",
    ]
    return LiveReadout(rows, notes, description(choice)) if work.measured else Readout(rows, notes)


def _pace(cluster: Cluster) -> str:
    """Who waits for whom."""
    if not cluster.paced_by:
        return "No rank waited for another one."
    (rank, times), *_ = cluster.paced_by.most_common(1)
    return (f"Ranks waited for a late one in {cluster.paced_by.total()} of them, most often for rank {rank}: "
            f"in {times}.")  # fmt: skip


# --- the sliders ---


def explorer(
    work: Work = COMPUTED,
    points: Sequence[Point] = (),
    start: Choice = Choice(),  # noqa: B008 (frozen)
) -> Explorer:
    """The explorer as a widget.  ``points`` were measured; the sliders stop at theirs, too."""
    controls = {}
    for name, (text, stops) in _STOPS.items():
        measured = {getattr(point, name) for point in points if hasattr(point, name)}
        values = sorted({*stops, *measured, getattr(start, name)})
        texts = {value: text(value) for value in values}
        controls[name] = selection(texts, getattr(start, name), _DESCRIPTIONS[name])
    return Explorer(Drawing(work, points), controls, Choice, partial(readout, work=work))


_STOPS: dict[str, tuple[Callable[[Any], str], Sequence]] = {  # how a value is written, and all values
    "ranks": (lambda ranks: f"{ranks:,}", _WORLDS),
    "rate": (rate_text, [rate * 1e6 / 8 for rate in (100, 200, 400, 800, 1000, 10_000, 100_000)]),
    "bucket_mb": (lambda size: f"{size:g} MiB", [LEAST_MB * 2**n for n in range(9)]),
    "micro_batches": (str, [1, 2, 4, 8, 16]),
    "slower": (lambda times: f"rate / {times:g}", [1.0, 1.5, 2.0, 5.0, 10.0, 100.0]),
    "jitter": (lambda spread: f"{spread:.0%}", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5]),
}  # fmt: skip
_DESCRIPTIONS = {
    "ranks": "ranks N", "rate": "rate of each link", "bucket_mb": "bucket size",
    "micro_batches": "micro-batches K", "slower": "one slow link", "jitter": "jitter of ranks",
}  # fmt: skip
