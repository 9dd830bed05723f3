"""Explorer of lesson 07: how much of the communication hides behind the backward pass, and what a step takes.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what the simulator predicts for some layers, measured ones or computed ones, and step times that were
measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import ceil, log2, log10
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from course_lib.arguments import number, whole_number
from course_lib.buckets import MIB
from course_lib.cost_model import all_reduce_seconds
from course_lib.explorers.bars import Bar, Bars, TimeAxis, time_unit
from course_lib.explorers.fast_canvas import layer_on_top, log_axis
from course_lib.explorers.gpt_layers import gpt_layers
from course_lib.explorers.measured_points import MeasuredPoints
from course_lib.explorers.units import axis_end, duration, rate_text, size
from course_lib.explorers.widget import Explorer, LiveReadout, Readout, selection
from course_lib.links import bytes_per_second
from course_lib.measurements import Measurement
from course_lib.palette import HATCH_COLOR, IDLE_HATCH, color_of
from course_lib.pictures import Looks, Picture
from course_lib.ring_drawing import FONT, WIDTH, Texts, sheet, text_width
from course_lib.simulator import LEFT_OUT, Layer, Step, simulate_step
from course_lib.transformer import TransformerConfig

FEWEST_RANKS, MOST_RANKS, MOST_MICRO_BATCHES = 2, 64, 16
LEAST_MB, MOST_MB = 1 / 8, 1024.0


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand.

    ``bucket_mb``: MiB of each bucket.  ``rate``: bytes/s of each link in one direction.  ``ranks`` N and
    ``micro_batches`` K.  Raises ValueError for what is not on the sliders, or can't be.
    """

    bucket_mb: float = 1.0
    rate: float = 50e6
    ranks: int = 2
    micro_batches: int = 1

    def __post_init__(self) -> None:
        number("bucket_mb", self.bucket_mb, least=LEAST_MB, most=MOST_MB)
        number("rate", self.rate)
        number("ranks", whole_number("ranks", self.ranks), least=FEWEST_RANKS, most=MOST_RANKS)
        number("micro_batches", whole_number("micro_batches", self.micro_batches), least=1,
               most=MOST_MICRO_BATCHES)  # fmt: skip


class Point(NamedTuple):
    """A measured step; ``rate`` in bytes/s."""

    implementation: str
    bucket_mb: float
    rate: float
    ranks: int
    micro_batches: int
    seconds: float


def points_of(measured: Iterable[Measurement]) -> list[Point]:
    """Points from measurements in seconds that say implementation, bucket_mb, rate and ranks.

    A rate is one that Links takes: a text such as "400mbit", or bytes/s.  Without micro_batches, it was one.
    Those of another ``part`` than "measured" are left out.
    """
    return [
        Point(str(has["implementation"]), float(has["bucket_mb"]), bytes_per_second(has["rate"]),
              int(has["ranks"]), int(has.get("micro_batches", 1)), each.value)
        for each in measured for has in [each.conditions] if has.get("part", "measured") == "measured"
    ]  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What each rank computes in a step, and ``latency``, seconds of a message; ``origin`` says whose it is.

    ``measured``: its numbers differ from run to run.
    """

    layers: tuple[Layer, ...]
    optimizer_seconds: float
    latency: float
    origin: str
    measured: bool = True

    @property
    def bytes(self) -> int:
        return sum(sum(layer.parameter_bytes) for layer in self.layers)

    def step(self, choice: Choice, bucket_mb: float | None = None, overlap: bool = True) -> Step:
        """The choice's step, or that with other buckets."""
        mebibytes = bucket_mb or choice.bucket_mb
        return simulate_step(
            self.layers,
            lambda bytes: all_reduce_seconds("ring", bytes, choice.ranks, self.latency, choice.rate),
            bucket_mb=mebibytes, first_bucket_mb=mebibytes, overlap=overlap,
            micro_batches=choice.micro_batches, optimizer_seconds=self.optimizer_seconds,
        )  # fmt: skip


# Of the size that the lessons train on slow links: 7.1 MiB of gradients.
_CONFIG = TransformerConfig(layers=4, hidden=192, heads=4, vocab=256, context=128)
_SEQUENCES, _FLOPS = 4, 20e9
_SIZE = f"{_CONFIG.layers} layers of {_CONFIG.hidden}, {_SEQUENCES} sequences of {_CONFIG.context} tokens"
_LATENCY = "100 µs"
COMPUTED = Work(
    tuple(gpt_layers(_CONFIG, _SEQUENCES, _CONFIG.positions, _FLOPS, element_bytes=4)), 5e-3, 100e-6,
    f"a GPT of {_SIZE}, {_FLOPS / 1e9:g} GFLOP/s on each rank, {_LATENCY} a message", measured=False,
)  # fmt: skip


def work_of(measured: Iterable[Measurement]) -> Work:
    """``COMPUTED``, as fast as the one measurement of ``part="compute alone"``: a step without communication.

    So that curves lie where points can that were measured with it.  Raises ValueError where there is none.
    """
    alone = [each.value for each in measured if each.conditions.get("part") == "compute alone"]
    if len(alone) != 1:
        raise ValueError(f"{len(alone)} measurements of part 'compute alone': expected one")
    times = alone[0] / (COMPUTED.step(Choice()).backward_end + COMPUTED.optimizer_seconds)
    layers = tuple(replace(layer, forward_seconds=times * layer.forward_seconds,
                           backward_seconds=times * layer.backward_seconds)
                   for layer in COMPUTED.layers)  # fmt: skip
    origin = (f"a GPT of {_SIZE}, as fast as a step without communication that was measured: "
              f"{duration(alone[0])}; {_LATENCY} a message")  # fmt: skip
    return replace(COMPUTED, layers=layers, optimizer_seconds=times * COMPUTED.optimizer_seconds,
                   origin=origin, measured=True)  # fmt: skip


# --- the picture ---

_HEIGHT = 5.9  # inches, as are all lengths of the sheet
_LEFT, _RIGHT = 1.24, WIDTH - 0.32
_ROW = 0.32
_PASSES, _COMPUTE, _REDUCTIONS, _AXIS = 0.5, 0.62, 1.0, 1.5
_TITLES = {0.16: "one step, predicted", 2.36: "time of a step over the size of its buckets"}
_PANEL = (_LEFT / WIDTH, 1.18 / _HEIGHT, (_RIGHT - _LEFT) / WIDTH, 2.19 / _HEIGHT)  # of the figure
_BARS_KEY, _PANEL_KEY = 4.03 / _HEIGHT, 0.68 / _HEIGHT  # the tops of what explains the colors, of the figure
_KINDS = {"compute": "compute", "communication": "all-reduce", "idle": "exposed: the rank waits",
          "optimizer state": "optimizer"}  # fmt: skip
_IDLE: Looks = {"facecolor": color_of("idle"), "hatch": IDLE_HATCH, "edgecolor": HATCH_COLOR, "linewidth": 0}
_PREDICTED: Looks = {"color": "black", "linewidth": 2}
_ALONE: Looks = {"color": color_of("compute"), "linewidth": 2}
_IN_TURN: Looks = {"color": color_of("communication"), "linewidth": 1.6, "linestyle": "--"}
_HERE: Looks = {"marker": "o", "markersize": 7, "color": "black", "linestyle": "none"}
_TICKS = (0, 0.5, 1.0)  # of the panel's height
_BEYOND = 1.15  # the panel goes so much further than its curves, on each side
_HEADROOM = 1.03
_PER_OCTAVE = 4  # points of the curves


def figure(
    choice: Choice, work: Work = COMPUTED, points: Sequence[Point] = (), origin: str = ""
) -> Picture:
    """Draw the predicted step over time, and below it its seconds over the bucket size.

    Below: with overlap and without, compute alone, and the points measured with the choice's rate, ranks and
    micro-batches.  ``origin``: where and when those were measured, as ``measurements.Shown.label`` says it.
    Raises ValueError for points of too many implementations.
    """
    drawing = Drawing(work, points, origin)
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, work: Work = COMPUTED, points: Sequence[Point] = (), origin: str = ""):
        self._work = work
        self.figure, page = sheet(_HEIGHT)
        for height, text in _TITLES.items():
            page.text(_LEFT, height, text, va="center", fontsize=FONT)
        for name, top in {"compute": _COMPUTE, "all-reduces": _REDUCTIONS}.items():
            page.text(_LEFT - 0.1, top + _ROW / 2, name, ha="right", va="center", fontsize=FONT)
        self._bars, self._axis = Bars(page), TimeAxis(page, _LEFT, _RIGHT, _AXIS)
        self._waits = page.add_patch(Rectangle((0, _COMPUTE), 0, _ROW, **_IDLE))
        self._names = Texts(page)
        self._panel = _Panel(self.figure.add_axes(_PANEL), work, points)
        self.changing = layer_on_top([*self._bars.changing, self._waits, self._names.artist,
                                      *self._axis.changing, *self._panel.changing])  # fmt: skip
        _draw_keys(self.figure, self._panel.measured.keys)
        if points and origin:
            page.text(_LEFT, _HEIGHT - 0.1, f"points: {origin}", va="center", fontsize=FONT)

    def show(self, choice: Choice) -> None:
        step = self._work.step(choice)
        scale = self._axis.show(step.seconds)
        shown = [span for span in step.spans if span.kind != "idle"]
        self._bars.show(
            Bar(_LEFT + scale * span.start, scale * span.seconds,
                _REDUCTIONS if span.kind == "communication" else _COMPUTE, _ROW, color_of(span.kind),
                span.label.removeprefix("bucket ") if span.kind == "communication" else "")
            for span in shown
        )  # fmt: skip
        self._waits.set(x=_LEFT + scale * step.backward_end, width=scale * step.exposed_seconds)
        self._names.show(_names(step, scale))
        self._panel.show(choice)
        self.figure.description = description(choice)


def _names(step: Step, scale: float) -> Iterator[tuple[str, float, float]]:
    """What is written over the bars of compute, where there is room for it: of many passes, how many."""
    passes, waits = list(_passes(step)), f"waits {duration(step.exposed_seconds)}"
    if not all(_fits(each, scale) for each in passes):
        passes = [(f"{len(passes) // 2} × forward and backward", 0.0, step.backward_end)]
    for each in [*passes, (waits, step.backward_end, step.communication_end)]:
        if _fits(each, scale):
            name, start, end = each
            yield name, _LEFT + scale * (start + end) / 2, _PASSES


def _fits(named: tuple[str, float, float], scale: float) -> bool:
    name, start, end = named
    return text_width(name) + 0.1 < scale * (end - start)


def _passes(step: Step) -> Iterator[tuple[str, float, float]]:
    """Name, start and end of each forward and backward pass."""
    for name, run in groupby(step.compute, key=lambda event: event.label.partition(" ")[0]):
        events = list(run)
        yield name, events[0].start, events[-1].end


class _Panel:
    """Seconds of a step over the bucket size, which is logarithmic."""

    def __init__(self, axes: Axes, work: Work, points: Sequence[Point]):
        self._work, self._points = work, [Point(*point) for point in points]
        most = _largest_bucket(work)
        octaves = round(log2(most / LEAST_MB))
        self._sizes = [LEAST_MB * 2 ** (n / _PER_OCTAVE) for n in range(octaves * _PER_OCTAVE + 1)]
        ticks = [LEAST_MB * 2**n for n in range(0, octaves + 1, 1 if octaves < 9 else 2)]
        log_axis(axes.xaxis, LEAST_MB / _BEYOND, most * _BEYOND, {tick: f"{tick:g}" for tick in ticks})
        axes.set(ylim=(0, 1), xlabel="size of a bucket (MiB)")
        axes.xaxis.label.set_fontsize(FONT)
        axes.tick_params(labelsize=FONT)
        axes.set_yticks(_TICKS, len(_TICKS) * [""])
        axes.grid(color="#E8E8E8", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        self._lines = [axes.plot([], [], **look)[0] for look in (_ALONE, _IN_TURN, _PREDICTED)]
        self._here = axes.plot([], [], **_HERE)[0]
        self.measured = MeasuredPoints(axes, (point.implementation for point in self._points))
        beside = axes.get_yaxis_transform()
        self._texts = [axes.text(-0.015, tick, "", ha="right", va="center", fontsize=FONT, transform=beside)
                       for tick in _TICKS]  # fmt: skip
        self.changing = [*self._lines, self._here, *self.measured.artists, *self._texts]

    def show(self, choice: Choice) -> None:
        shown = [point for point in self._points if point[2:5] == (
            choice.rate, choice.ranks, choice.micro_batches)]  # fmt: skip
        curves = self._curves(choice)
        longest = max([*(max(curve) for curve in curves), *(point.seconds for point in shown)])
        unit, factor = time_unit(longest)
        end = axis_end(factor * longest * _HEADROOM) / factor
        places = [log10(mebibytes) for mebibytes in self._sizes]
        for line, curve in zip(self._lines, curves, strict=True):
            line.set_data(places, [seconds / end for seconds in curve])
        self._here.set_data([log10(choice.bucket_mb)], [self._work.step(choice).seconds / end])
        self.measured.show((each.implementation, log10(each.bucket_mb), each.seconds / end) for each in shown)
        for tick, text in zip(_TICKS, self._texts, strict=True):
            text.set_text(f"{tick * end * factor:g} {unit}" if tick else "0")

    def _curves(self, choice: Choice) -> list[list[float]]:
        """Compute alone, all-reduces after the backward pass, and the predicted step."""
        overlapped = [self._work.step(choice, mebibytes) for mebibytes in self._sizes]
        alone = overlapped[0].backward_end + self._work.optimizer_seconds
        in_turn = [alone + step.exposed_seconds + step.hidden_seconds for step in overlapped]
        return [len(self._sizes) * [alone], in_turn, [step.seconds for step in overlapped]]


def _largest_bucket(work: Work) -> float:
    """MiB, a power of two, in which all gradients have room."""
    return min(max(1.0, 2.0 ** ceil(log2(max(work.bytes, 1) / MIB))), MOST_MB)


def _draw_keys(drawing: Picture, measured: Sequence[Line2D]) -> None:
    """Of the timeline, and below all that of the panel."""
    bars = [Patch(label=name, **(_IDLE if kind == "idle" else {"facecolor": color_of(kind)}))
            for kind, name in _KINDS.items()]  # fmt: skip
    lines = [
        Line2D([], [], label="predicted", **{**_PREDICTED, **_HERE, "linestyle": "-"}),
        Line2D([], [], label="with no overlap", **_IN_TURN),
        Line2D([], [], label="compute alone", **_ALONE),
        *measured,
    ]
    for handles, top, columns in ((bars, _BARS_KEY, 4), (lines, _PANEL_KEY, 3)):
        drawing.legend(handles=handles, loc="upper left", bbox_to_anchor=(_LEFT / WIDTH - 0.01, top),
                       ncols=columns, frameon=False, fontsize=FONT, borderaxespad=0, columnspacing=1.3,
                       handletextpad=0.6)  # fmt: skip


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"One predicted step as a timeline: {choice.ranks} ranks, micro-batches: {choice.micro_batches}, "
        f"buckets of {choice.bucket_mb:g} MiB, links of {rate_text(choice.rate)}. Below it the time of a "
        "step over the bucket size, with overlap and without, and compute alone."
    )


# --- the numbers beside it ---


def readout(choice: Choice, work: Work = COMPUTED) -> Readout:
    """The picture in numbers; as a text, without what was measured."""
    step = work.step(choice)
    communication = step.exposed_seconds + step.hidden_seconds
    rows = [
        ("", "predicted"),
        ("forward and backward", duration(step.backward_end)),
        ("communication", duration(communication)),
        ("– hidden behind backward", duration(step.hidden_seconds)),
        ("– exposed", duration(step.exposed_seconds)),
        ("optimizer", duration(work.optimizer_seconds)),
        ("step", duration(step.seconds)),
        ("exposed, of the step", f"{step.exposed_seconds / step.seconds:.0%}"),
    ]
    plural = "s" * (len(step.buckets) > 1)
    what = (f"{size(work.bytes)} of gradients in {len(step.buckets)} bucket{plural} of {choice.bucket_mb:g} "
            f"MiB; {choice.ranks} ranks, links of {rate_text(choice.rate)}.")  # fmt: skip
    notes = [what, f"Predicted from {work.origin}. Left out: {'; '.join(LEFT_OUT)}."]
    if choice.micro_batches > 1:
        notes.append(f"Only the last of {choice.micro_batches} backward passes hides anything.")
    return LiveReadout(rows, notes, description(choice)) if work.measured else Readout(rows, notes)


# --- the sliders ---


def explorer(
    work: Work = COMPUTED,
    points: Sequence[Point] = (),
    start: Choice = Choice(),  # noqa: B008 (frozen)
    origin: str = "",
) -> Explorer:
    """The explorer as a widget.  ``points`` were measured; the sliders stop at theirs, too.

    ``origin``: what the picture says of where and when they were measured.
    """
    stops: dict[str, dict[Any, str]] = {
        "bucket_mb": {mebibytes: f"{mebibytes:g} MiB" for mebibytes in _bucket_stops(work, points, start)},
        "rate": {rate: rate_text(rate) for rate in sorted({*_RATES, *(each.rate for each in points),
                                                           start.rate})},
        "ranks": {n: f"{n}" for n in sorted({*_RANKS, *(each.ranks for each in points), start.ranks})},
        "micro_batches": {k: f"{k}" for k in range(1, MOST_MICRO_BATCHES + 1)},
    }  # fmt: skip
    controls = {
        name: selection(texts, getattr(start, name), _DESCRIPTIONS[name])
        for name, texts in stops.items()
    }
    return Explorer(Drawing(work, points, origin), controls, Choice, partial(readout, work=work))


def _bucket_stops(work: Work, points: Sequence[Point], start: Choice) -> list[float]:
    even = [LEAST_MB * 2**n for n in range(round(log2(_largest_bucket(work) / LEAST_MB)) + 1)]
    measured = (each.bucket_mb for each in points if LEAST_MB <= each.bucket_mb <= MOST_MB)
    return sorted({*even, *measured, start.bucket_mb})


_RATES = [rate * 1e6 / 8 for rate in (100, 200, 400, 800, 1000, 10_000, 100_000)]
_RANKS = [2, 3, 4, 6, 8, 16, 32, 64]
_DESCRIPTIONS = {"bucket_mb": "bucket size", "rate": "rate of each link", "ranks": "ranks N",
                 "micro_batches": "micro-batches K"}  # fmt: skip
