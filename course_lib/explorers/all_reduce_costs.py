"""Explorer of lesson 04: what each all-reduce costs, by the model, from 2 ranks to 4,096.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what ``cost_model`` computes, and points that were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, log10
from numbers import Real
from typing import Any, NamedTuple

import ipywidgets as widgets
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from course_lib.arguments import one_of, whole_number
from course_lib.cost_model import ALGORITHMS, all_reduce_seconds, bus_bandwidth, limit_seconds, terms
from course_lib.explorers.fast_canvas import layer_on_top, log_axis
from course_lib.explorers.units import byte_rate_text, bytes_text, latency_text, seconds_text
from course_lib.explorers.widget import Explorer, Readout, selection
from course_lib.hardware import ACCELERATORS
from course_lib.measurements import Measurement
from course_lib.palette import color_of
from course_lib.pictures import Looks, Picture
from course_lib.transformer import CONFIGS

FEWEST_RANKS, MOST_RANKS = 2, 4096
LEAST_BYTES, MOST_BYTES = 2**10, 2**35
_GPT_2, _LLAMA = (2 * CONFIGS[name].parameters for name in ("gpt-2-small", "llama-2-7b"))
TORCH = "torch's own"  # measured only: which algorithm it takes is its own affair


class Point(NamedTuple):
    """A measured all-reduce.  ``algorithm`` is one of cost_model.ALGORITHMS, or TORCH."""

    algorithm: str
    bytes: int
    ranks: int
    seconds: float


def points_of(measured: Iterable[Measurement]) -> list[Point]:
    """Points from measurements in seconds that say their algorithm, bytes and ranks."""
    return [
        Point(str(has["algorithm"]), int(has["bytes"]), int(has["ranks"]), each.value)
        for each in measured for has in [each.conditions]
    ]


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand: ranks, bytes of the tensor, seconds a message, bytes/s of each link.

    The bandwidth is that of one direction.  Raises ValueError for what is not on the axes, or can't be.
    """

    ranks: int = 8
    bytes: int = _GPT_2
    latency: float = 5e-6
    bandwidth: float = 450e9

    def __post_init__(self) -> None:
        if not FEWEST_RANKS <= whole_number("ranks", self.ranks) <= MOST_RANKS:
            raise ValueError(f"ranks={self.ranks!r}: expected {FEWEST_RANKS} to {MOST_RANKS}")
        if not LEAST_BYTES <= whole_number("bytes", self.bytes) <= MOST_BYTES:
            raise ValueError(f"bytes={self.bytes!r}: expected {LEAST_BYTES} to {MOST_BYTES}")
        self.seconds("ring")  # refuses the others

    def seconds(self, algorithm: str, bytes: int | None = None, ranks: int | None = None) -> float:
        """What an algorithm takes here, or with another size or number of ranks."""
        size, world = bytes or self.bytes, ranks or self.ranks
        return all_reduce_seconds(algorithm, size, world, self.latency, self.bandwidth)

    def limit(self, bytes: int | None = None, ranks: int | None = None) -> float:
        """The least that is possible here, or with another size or number of ranks."""
        return limit_seconds(bytes or self.bytes, ranks or self.ranks, self.bandwidth)

    @property
    def fastest(self) -> list[str]:
        """The algorithms that take the least time."""
        times = {algorithm: self.seconds(algorithm) for algorithm in ALGORITHMS}
        return [algorithm for algorithm, time in times.items() if time <= min(times.values()) * (1 + 1e-9)]


# --- the picture ---

_SIZE = (7.4, 5.2)  # inches
_FONT = 9  # points
_GRAY, _PALE = "#5A5A5A", "#B4B4B4"
_SIZES = [2**power for power in range(10, 36)]
_WORLDS = [2**power for power in range(1, 13)]  # between them, pairs cost more: lines would go up and down
_SIZE_TICKS = {size: bytes_text(size) for size in _SIZES[::5]}
_WORLD_TICKS = {ranks: f"{ranks:,}" for ranks in (2, 4, 16, 64, 256, 1024, 4096)}
_TIME_TICKS = {10.0**power: seconds_text(10.0**power) for power in range(-6, 3)}
_TIME_TICKS |= {1e3: "1,000 s", 1e4: "10,000 s"}
_LEAST_TIME, _MOST_TIME = min(_TIME_TICKS), max(_TIME_TICKS)
_FLOOR = log10(_LEAST_TIME) - 10  # below the axes, whatever is drawn
_COMMUNICATION = color_of("communication")
_LOOKS: dict[str, Looks] = {
    "star": {"color": "black", "linestyle": "-", "marker": "*"},
    "tree": {"color": "black", "linestyle": "--", "marker": "X"},
    "recursive-doubling": {"color": "black", "linestyle": ":", "marker": "s"},
    "halving-doubling": {"color": "black", "linestyle": "-.", "marker": "D"},
    "unchunked-ring": {"color": _COMMUNICATION, "linestyle": "--", "marker": "P"},
    "ring": {"color": _COMMUNICATION, "linestyle": "-", "marker": "o"},
    TORCH: {"marker": "x"},
}
_WIDTHS = {"ring": 2.6, "unchunked-ring": 1.8}
_LIMIT: Looks = {"color": _GRAY, "linewidth": 1.2}
_BELOW_LIMIT: Looks = {"facecolor": "#00000018", "linewidth": 0}  # what lies under it is seen through it
_MEASURED: Looks = {"color": "black", "markersize": 9, "markerfacecolor": "none", "linestyle": "none"}
_ELSEWHERE: Looks = {"color": _PALE, "marker": ".", "markersize": 4, "linestyle": "none"}
_BEYOND = 1.3  # axes go so much further than what they show, so that nothing lies on their ends


def figure(choice: Choice, points: Sequence[Point] = (), origin: str = "") -> Picture:
    """Draw seconds over bytes for the choice's ranks, and over ranks for its bytes, all logarithmic.

    One line for each algorithm, in gray what no all-reduce can reach, and measured points on the same axes.
    ``origin``: where and when those were measured, as ``measurements.Shown.label`` says it.
    """
    drawing = Drawing(points, origin)
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, points: Sequence[Point] = (), origin: str = ""):
        points = [_checked(point) for point in points]
        self.figure = Picture(figsize=_SIZE, description="")
        left, right = (self.figure.add_axes((x, 0.313, 0.41, 0.63)) for x in (0.12, 0.568))
        log_axis(left.xaxis, LEAST_BYTES / _BEYOND, MOST_BYTES * _BEYOND, _SIZE_TICKS)
        log_axis(right.xaxis, FEWEST_RANKS / _BEYOND, MOST_RANKS * _BEYOND, _WORLD_TICKS)
        self._over_bytes = _Panel(left, points, "bytes")
        self._over_ranks = _Panel(right, points, "ranks")
        left.set_ylabel("time of one all-reduce", fontsize=_FONT)
        left.set_xlabel("size of the tensor", fontsize=_FONT)
        right.set_xlabel("ranks N", fontsize=_FONT)
        right.tick_params(labelleft=False)
        self.changing = layer_on_top([*self._over_bytes.changing, *self._over_ranks.changing])
        self.figure.legend(handles=_key(points), loc="lower center", ncols=3, frameon=False, fontsize=_FONT,
                           columnspacing=1.6, handlelength=2.6, title_fontsize=_FONT,
                           title=f"points: {origin}" if points and origin else None)  # fmt: skip

    def show(self, choice: Choice) -> None:
        self._over_bytes.show(choice, _SIZES, f"{choice.ranks:,} ranks")
        self._over_ranks.show(choice, _WORLDS, bytes_text(choice.bytes))
        self.figure.description = description(choice)


class _Panel:
    """Seconds over one of a choice's numbers, ``over``, while the other numbers stay."""

    def __init__(self, axes: Axes, points: Sequence[Point], over: str):
        self._over, self._other = over, "ranks" if over == "bytes" else "bytes"
        self._points = points
        log_axis(axes.yaxis, _LEAST_TIME, _MOST_TIME, _TIME_TICKS)
        axes.tick_params(labelsize=_FONT)
        axes.grid(color="#E8E8E8", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.plot(*self._places(points), **_ELSEWHERE)
        self._below_limit = axes.add_patch(Polygon([(0, 0)], **_BELOW_LIMIT))
        self._limit = axes.plot([], [], **_LIMIT)[0]
        self._here = axes.axvline(0, color=_GRAY, linewidth=0.8)
        self._lines = {name: axes.plot([], [], **_line(name))[0] for name in ALGORITHMS}
        self._marks = {name: axes.plot([], [], **_mark(name), clip_on=False)[0] for name in ALGORITHMS}
        self._measured = {name: axes.plot([], [], marker=_LOOKS[name]["marker"], **_MEASURED)[0]
                          for name in _LOOKS if any(point.algorithm == name for point in points)}  # fmt: skip
        self._title = axes.text(0.5, 1.025, "", ha="center", fontsize=_FONT + 1, transform=axes.transAxes)
        self.changing = [self._below_limit, self._limit, self._here, *self._lines.values(),
                         *self._marks.values(), *self._measured.values(), self._title]  # fmt: skip

    def show(self, choice: Choice, values: Sequence[int], title: str) -> None:
        self._title.set_text(title)
        places = [log10(value) for value in values]
        limit = [log10(choice.limit(**{self._over: value})) for value in values]
        self._limit.set_data(places, limit)
        corners = [(places[-1], _FLOOR), (places[0], _FLOOR)]
        self._below_limit.set(xy=[*zip(places, limit, strict=True), *corners])
        here = log10(getattr(choice, self._over))
        self._here.set_xdata([here, here])
        for name in ALGORITHMS:
            times = [choice.seconds(name, **{self._over: value}) for value in values]
            self._lines[name].set_data(places, [log10(time) for time in times])
            _put(self._marks[name], here, choice.seconds(name), _LOOKS[name]["marker"])
        same = [point for point in self._points
                if getattr(point, self._other) == getattr(choice, self._other)]  # fmt: skip
        for name, artist in self._measured.items():
            artist.set_data(*self._places([point for point in same if point.algorithm == name]))

    def _places(self, points: Sequence[Point]) -> tuple[list[float], list[float]]:
        across = [log10(getattr(point, self._over)) for point in points]
        return across, [log10(point.seconds) for point in points]


def _checked(point: Point) -> Point:
    point = Point(*point)
    one_of("algorithm", point.algorithm, _LOOKS)
    if not all(isinstance(number, Real) and 0 < number < inf for number in point[1:]):
        raise ValueError(f"{point!r}: expected bytes, ranks and seconds above 0")
    return point


def _line(name: str) -> Looks:
    looks = {key: value for key, value in _LOOKS[name].items() if key != "marker"}
    return {**looks, "linewidth": _WIDTHS.get(name, 1.2)}


def _mark(name: str) -> Looks:
    size = 9 if name == "star" else 6
    color, marker = _LOOKS[name]["color"], _LOOKS[name]["marker"]
    return {"color": color, "marker": marker, "markersize": size, "linestyle": "none"}


def _put(mark: Line2D, place: float, seconds: float, marker: str) -> None:
    """At a time, or as an arrow at the edge beyond which it lies."""
    mark.set_data([place], [log10(min(max(seconds, _LEAST_TIME), _MOST_TIME))])
    mark.set_marker("^" if seconds > _MOST_TIME else "v" if seconds < _LEAST_TIME else marker)


def _key(points: Sequence[Point]) -> list[Artist]:
    lines = [Line2D([], [], **{**_mark(name), **_line(name)}, label=name) for name in ALGORITHMS]
    key: list[Artist] = [*lines, Patch(**_BELOW_LIMIT, label="not possible at this bandwidth")]
    if points:
        key.append(Line2D([], [], marker="o", **_MEASURED, label="measured"))
        key.append(Line2D([], [], **_ELSEWHERE, label="measured, other N or size"))
    if any(point.algorithm == TORCH for point in points):
        key.append(Line2D([], [], marker="x", **_MEASURED, label=f"{TORCH}, measured"))
    return key


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        "Time of an all-reduce by the cost model, for six algorithms and the limit: for "
        f"{choice.ranks:,} ranks over the size of the tensor, and for {bytes_text(choice.bytes)} over the "
        f"number of ranks, with {latency_text(choice.latency)} a message and links of "
        f"{byte_rate_text(choice.bandwidth)}."
    )


# --- the numbers beside it ---


def readout(choice: Choice) -> Readout:
    """The picture in numbers: for each algorithm the two factors of its cost, its time, its bus bandwidth."""
    ranks = choice.ranks
    body = [(name, *_numbers(choice, *terms(name, ranks), choice.seconds(name))) for name in ALGORITHMS]
    limit = ("limit", *_numbers(choice, 0, terms("ring", ranks).tensors, choice.limit()))
    return Readout([("", "messages", "× tensor", "time", "busbw"), *body, limit], _notes(choice))


def _numbers(choice: Choice, messages: int, tensors: float, seconds: float) -> tuple[str, ...]:
    rate = bus_bandwidth("all-reduce", choice.bytes, seconds, choice.ranks)
    return f"{messages:,}", f"{tensors:,.6g}", seconds_text(seconds), byte_rate_text(rate)


def _notes(choice: Choice) -> list[str]:
    notes = [
        f"Fastest here: {', '.join(choice.fastest)}.",
        f"Time = messages × {latency_text(choice.latency)} + tensors × {choice.bytes:,} bytes / "
        f"{byte_rate_text(choice.bandwidth)}. Adding, and the processor's part, are left out.",
    ]
    if choice.ranks & (choice.ranks - 1):
        notes.append(
            f"{choice.ranks:,} is no power of two, so algorithms that exchange in pairs pay for 2 more "
            "messages of the whole tensor. The lines over N join powers of two."
        )
    return notes


# --- the sliders ---


def explorer(
    points: Sequence[Point] = (), start: Choice = Choice(), origin: str = ""  # noqa: B008 (frozen)
) -> Explorer:
    """The explorer as a widget.  ``points`` were measured; the sliders stop at their sizes and ranks.

    ``origin``: what the picture says of where and when they were measured.
    """
    return Explorer(Drawing(points, origin), _controls(points, start), Choice, readout)


def _controls(points: Sequence[Point], start: Choice) -> dict[str, widgets.ValueWidget]:
    """One control for each field of Choice."""
    stops: dict[str, dict[Any, str]] = {
        "ranks": {ranks: f"{ranks:,}" for ranks in _rank_stops(points, start)},
        "bytes": {size: _named_size(size) for size in _size_stops(points, start)},
        "latency": {time: latency_text(time) for time in {0.0, *_steps(-7, -3), start.latency}},
        "bandwidth": {rate: _named_rate(rate) for rate in {*_steps(6, 11), *_RATES, start.bandwidth}},
    }
    return {
        name: selection(dict(sorted(texts.items())), getattr(start, name), _DESCRIPTIONS[name], "8em")
        for name, texts in stops.items()
    }


def _rank_stops(points: Sequence[Point], start: Choice) -> set[int]:
    measured = {point[2] for point in points if FEWEST_RANKS <= point[2] <= MOST_RANKS}
    between = (3 * ranks for ranks in _WORLDS if 3 * ranks < MOST_RANKS)
    return {*_WORLDS, *between, 3, 5, 7, *measured, start.ranks}


def _size_stops(points: Sequence[Point], start: Choice) -> set[int]:
    measured = {point[1] for point in points if LEAST_BYTES <= point[1] <= MOST_BYTES}
    return {*_SIZES, *_NAMED_SIZES, *measured, start.bytes}


def _steps(first: int, last: int) -> list[float]:
    """1, 2 and 5 times each power of ten, as if they were typed, and one more at the end."""
    return [*(float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)),
            float(f"1e{last + 1}")]  # fmt: skip


def _named_size(size: int) -> str:
    return bytes_text(size) + (f": {_NAMED_SIZES[size]}" if size in _NAMED_SIZES else "")


def _named_rate(rate: float) -> str:
    return byte_rate_text(rate) + (f": {_RATES[rate]}" if rate in _RATES else "")


_NAMED_SIZES = {_GPT_2: "GPT-2 small", _LLAMA: "Llama-2-7B"}  # their gradients in bf16
_INFINIBAND = {25e9: "IB HDR", 50e9: "IB NDR", 100e9: "IB XDR"}  # InfiniBand; rates of ml-engineering
_RATES = {
    50e6: "400 Mbit/s", 125e6: "1 Gbit/s", 1.25e9: "10 Gbit/s", 12.5e9: "100 Gbit/s", **_INFINIBAND,
    **{card.link_bandwidth: card.sources["link_bandwidth"].partition(",")[0] for card in ACCELERATORS.values()
       if card.link_bandwidth and card.sources["link_bandwidth"].startswith(("NVLink", "PCIe"))},
}  # fmt: skip
_DESCRIPTIONS = {
    "ranks": "ranks N",
    "bytes": "tensor",
    "latency": "latency",
    "bandwidth": "bandwidth",
}
