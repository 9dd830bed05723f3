"""Explorer of lesson 08: where data parallelism loses, for every model on up to 4,096 ranks.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what ``map_grid`` computes, and published runs.  Nothing in it was measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import log10
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap
from matplotlib.lines import Line2D

from course_lib.arguments import number, whole_number
from course_lib.explorers import published_runs
from course_lib.explorers.fast_canvas import layer_on_top, log_axis
from course_lib.explorers.free_places import Places
from course_lib.explorers.map_grid import (
    CARDS,
    COLUMNS,
    COMPUTE_SHARE,
    COSTLY,
    HIDES,
    LATENCY,
    LEAST,
    MOST,
    PARAMETERS,
    RANKS,
    REGIONS,
    SEQUENCE,
    WALL,
    Grid,
    Setting,
    Spot,
    grid,
    model_near,
    spot,
)
from course_lib.explorers.units import byte_rate_text, count, duration, latency_text, size
from course_lib.explorers.widget import Explorer, Readout, selection, stops_with
from course_lib.hardware import ACCELERATORS
from course_lib.palette import color_of
from course_lib.pictures import Looks, Picture
from course_lib.ring_drawing import FONT, WIDTH, Texts, sheet
from course_lib.simulator import LEFT_OUT, MOST_RANKS


@dataclass(frozen=True)
class Choice(Setting):
    """A Setting for the map, and a place on it: the model with about so many ``parameters`` on ``ranks``."""

    parameters: int = PARAMETERS[9]
    ranks: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        number("parameters", whole_number("parameters", self.parameters), LEAST, MOST)
        number("ranks", whole_number("ranks", self.ranks), 1, MOST_RANKS)

    @property
    def setting(self) -> Setting:
        return Setting(*(getattr(self, field.name) for field in fields(Setting)))

    @property
    def spot(self) -> Spot:
        return spot(self.setting, self.parameters, self.ranks)


# --- the picture ---

_HEIGHT = 6.9  # inches, as are all lengths of the sheet
_SMALL = 7.5  # points, of the numbers in the marks
_LIST_FONT = 8.5
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.72, WIDTH - 0.62, 0.62, 4.5
_BESIDE = _RIGHT + 0.31
_PANEL = (_LEFT / WIDTH, 1 - _BOTTOM / _HEIGHT, (_RIGHT - _LEFT) / WIDTH, (_BOTTOM - _TOP) / _HEIGHT)
_BAR = (0.5, 1 - 5.12 / _HEIGHT, (_RIGHT / WIDTH) - 0.5, 0.13 / _HEIGHT)
_FEWEST_END, _MOST_END = 0.85, 1.18 * MOST_RANKS  # of the axis of N
_PARAMETER_ENDS = 0.8 * LEAST, 1.25 * MOST  # so that a star at either end is whole
_PARAMETER_TICKS = {10**n: count(10**n) for n in range(8, 13)}
_RANK_TICKS = (1, 4, 16, 64, 256, 1024, 4096)
_LEVELS = [0.05 * n for n in range(round(COMPUTE_SHARE / 0.05) + 1)]
_COLORS = LinearSegmentedColormap.from_list("U", [color_of("communication"), color_of("compute")])
_NORM = BoundaryNorm(_LEVELS, _COLORS.N)
_WALL = "#E8E8E8"
_MARKERS = dict(zip(published_runs.KINDS, "osD", strict=True))
_MARK: Looks = {"markersize": 11, "markerfacecolor": "white", "markeredgecolor": "black", "linestyle": "none"}
_HERE: Looks = {"marker": "*", "markersize": 17, "markerfacecolor": "black", "markeredgecolor": "white",
                "linestyle": "none"}  # fmt: skip
_EDGES: Looks = {"colors": "black", "linewidths": 1.3}
_CRITICAL: Looks = {"color": "black", "linewidth": 1.6, "linestyle": "--"}
_MARK_SIZE, _HERE_SIZE, _LINE_SIZE = 0.24, 0.3, 0.08  # that texts keep clear of
_ABOVE_AXIS = 0.6


def figure(choice: Choice) -> Picture:
    """Draw ranks over parameters, both logarithmic, colored by U, with the names of its regions.

    Numbers are published runs; the list below says which.  On the right what a batch of so many ranks costs
    in examples.
    """
    drawing = Drawing()
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self) -> None:
        self.figure, page = sheet(_HEIGHT)
        page.set_zorder(1)  # texts go over the map
        axes = self.figure.add_axes(_PANEL, facecolor=_WALL)
        log_axis(axes.xaxis, *_PARAMETER_ENDS, _PARAMETER_TICKS)
        log_axis(axes.yaxis, _FEWEST_END, _MOST_END, {ranks: f"{ranks:,}" for ranks in _RANK_TICKS})
        axes.tick_params(labelsize=FONT)
        axes.set_xlabel("parameters P of the model", fontsize=FONT)
        axes.set_ylabel("data-parallel ranks N", fontsize=FONT)
        self._mesh = axes.pcolormesh(_X_EDGES, _Y_EDGES, np.zeros((len(RANKS), len(COLUMNS))),
                                     cmap=_COLORS, norm=_NORM)  # fmt: skip
        self._edges = axes.add_collection(LineCollection([], **_EDGES), autolim=False)
        self._critical = axes.axhline(0, **_CRITICAL)
        self._here = axes.plot([], [], **_HERE)[0]
        runs = [_draw_runs(axes, kind) for kind in published_runs.KINDS]
        numbers, self._names, self._examples = Texts(page, _SMALL), Texts(page), Texts(page)
        numbers.show((f"{number}", *_place(run)) for number, run in enumerate(published_runs.RUNS, start=1))
        self.changing = layer_on_top([
            self._mesh, self._edges, self._critical, self._here, *runs,
            numbers.artist, self._names.artist, self._examples.artist,
        ])  # fmt: skip
        for row, text in enumerate(("cost in", "examples")):
            page.text(WIDTH - 0.05, _TOP - 0.28 + 0.15 * row, text, ha="right", va="center", fontsize=FONT)
        _draw_keys(self.figure, page)

    def show(self, choice: Choice) -> None:
        setting = choice.setting
        cells = grid(setting)
        self._mesh.set_array(cells.utilization)
        self._edges.set(segments=_borders(cells.region))
        critical = log10(setting.critical_ranks)
        self._critical.set_ydata([critical, critical])
        here = log10(model_near(choice.parameters).config.parameters), log10(choice.ranks)
        self._here.set_data(*([each] for each in here))
        self._names.show(_names(cells, setting, here))
        self._examples.show((_times(setting.examples(ranks)), _BESIDE, _down(log10(ranks)))
                            for ranks in _RANK_TICKS)  # fmt: skip
        self.figure.description = description(choice)


def _times(factor: float) -> str:
    return f"× {count(float(f'{factor:.3g}'))}"


def _cell_edges(values: Sequence[float], least: float, most: float) -> np.ndarray:
    """As powers of ten: half way between values, and the ends of the axis."""
    logs = np.log10(values)
    return np.array([log10(least), *(logs[:-1] + logs[1:]) / 2, log10(most)])


_X_EDGES = _cell_edges(COLUMNS, *_PARAMETER_ENDS)
_Y_EDGES = _cell_edges(RANKS, _FEWEST_END, _MOST_END)


def _across(x: float) -> float:
    """Inches from the left of the sheet, of a power of ten."""
    return _LEFT + (x - _X_EDGES[0]) / np.ptp(_X_EDGES) * (_RIGHT - _LEFT)


def _down(y: float) -> float:
    """Inches from the top of the sheet, of a power of ten."""
    return _BOTTOM - (y - _Y_EDGES[0]) / np.ptp(_Y_EDGES) * (_BOTTOM - _TOP)


def _borders(region: np.ndarray) -> list[list[tuple[float, float]]]:
    """The lines between cells of two regions."""
    upright = [[(_X_EDGES[column + 1], _Y_EDGES[row]), (_X_EDGES[column + 1], _Y_EDGES[row + 1])]
               for row, column in np.argwhere(region[:, 1:] != region[:, :-1])]  # fmt: skip
    level = [[(_X_EDGES[column], _Y_EDGES[row + 1]), (_X_EDGES[column + 1], _Y_EDGES[row + 1])]
             for row, column in np.argwhere(region[1:] != region[:-1])]  # fmt: skip
    return upright + level


def _draw_runs(axes: Axes, kind: str) -> Line2D:
    places = [(log10(run.parameters), log10(run.ranks)) for run in published_runs.RUNS if run.kind == kind]
    return axes.plot(*zip(*places, strict=True), marker=_MARKERS[kind], **_MARK)[0]


def _place(run: published_runs.Run) -> tuple[float, float]:
    return _across(log10(run.parameters)), _down(log10(run.ranks))


# --- the names of regions ---


def _names(cells: Grid, setting: Setting, here: tuple[float, float]) -> Iterator[tuple[str, float, float]]:
    """Each where there is room for it in its region, if anywhere."""
    places = Places(_LEFT, _RIGHT, _TOP, _BOTTOM)
    for run in published_runs.RUNS:
        places.take(*_place(run), _MARK_SIZE, _MARK_SIZE)
    places.take(_across(here[0]), _down(here[1]), _HERE_SIZE, _HERE_SIZE)
    region = cells.region[np.ix_(_cells(places.rows, _BOTTOM, _TOP, _Y_EDGES),
                                 _cells(places.columns, _LEFT, _RIGHT, _X_EDGES))]  # fmt: skip
    places.take_borders(region)
    critical = _down(log10(setting.critical_ranks))
    places.take((_LEFT + _RIGHT) / 2, critical, _RIGHT - _LEFT, _LINE_SIZE)
    above = np.broadcast_to((places.rows < critical)[:, None], region.shape)
    yield from places.put(_BEYOND, above, near_row=critical)
    for index, name in enumerate(REGIONS):
        low = _BOTTOM - _ABOVE_AXIS if name == WALL else None  # the middle is where most runs are
        yield from places.put(_name_options(name, setting), region == index, near_row=low)


_BEYOND = ("batch beyond critical", "beyond critical")


def _name_options(name: str, setting: Setting) -> tuple[str, ...]:
    if name == WALL:
        return f"memory wall: 16P + activations > {size(setting.memory_bytes)}", name
    if name == HIDES:
        return name, "hides"
    return (f"{name}: over {COSTLY:.0%} exposed", name)


def _cells(inches: np.ndarray, start: float, end: float, edges: np.ndarray) -> np.ndarray:
    """In which cell of an axis from ``start`` to ``end`` each place is."""
    return np.searchsorted(edges, edges[0] + (inches - start) / (end - start) * np.ptp(edges)) - 1


# --- what surrounds the map ---


def _draw_keys(drawing: Picture, page: Axes) -> None:
    marks = [Line2D([], [], marker=marker, label=kind, **_MARK) for kind, marker in _MARKERS.items()]
    handles = [*marks, Line2D([], [], label="here", **_HERE)]
    drawing.legend(handles=handles, loc="upper left", bbox_to_anchor=(_LEFT / WIDTH - 0.01, 0.995), ncols=4,
                   frameon=False, fontsize=FONT, borderaxespad=0, columnspacing=1.2,
                   handletextpad=0.3)  # fmt: skip
    bar = drawing.add_axes(_BAR, xlim=(0, COMPUTE_SHARE), ylim=(0, 1))
    bar.pcolormesh(_LEVELS, [0, 1], [[low + 0.01 for low in _LEVELS[:-1]]], cmap=_COLORS, norm=_NORM)
    bar.set_yticks([])
    bar.set_xticks(_LEVELS[::2], [f"{level:.0%}" for level in _LEVELS[::2]], fontsize=FONT)
    page.text(_LEFT, 5.055, f"U (compute alone: {COMPUTE_SHARE:.0%} of peak)", va="center", fontsize=FONT)
    half = (len(published_runs.RUNS) + 1) // 2
    for place, run in enumerate(published_runs.RUNS):
        column, row = divmod(place, half)
        left, height = (0.28, 4.1)[column], 5.55 + 0.19 * row
        page.text(left - 0.08, height, f"{place + 1}", ha="right", va="center", fontsize=_LIST_FONT)
        page.text(left, height, published_runs.line(run), va="center", fontsize=_LIST_FONT)


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"A map of data-parallel ranks over parameters for {choice.hardware.name}, links of "
        f"{byte_rate_text(choice.bandwidth)} with {latency_text(choice.latency)} a message, "
        f"{choice.tokens:,} tokens in a micro-batch and {choice.micro_batches} micro-batches, colored by the "
        "utilization that the model gives: it falls as ranks are added. On the right, behind the memory "
        f"wall, no rank has room. {len(published_runs.RUNS)} published runs are marked; those behind the "
        "wall shard or divide the model."
    )


# --- the numbers beside it ---


def readout(choice: Choice) -> Readout:
    """The place in numbers."""
    here = choice.spot
    step = here.step
    rows = [
        ("", "here"),
        ("parameters P", count(here.parameters)),
        ("ranks N", f"{here.ranks:,}"),
        ("model state and activations", size(here.memory)),
        (f"memory of {choice.hardware.name}", size(choice.memory_bytes)),
        ("forward and backward", duration(step.backward_end)),
        ("communication", duration(step.exposed_seconds + step.hidden_seconds)),
        ("– of it latency", duration(here.latency_seconds)),
        ("– exposed", duration(step.exposed_seconds)),
        ("optimizer", duration(step.optimizer_seconds)),
        ("step", duration(step.seconds)),
        ("U", f"{here.utilization:.1%}"),
        ("batch, in tokens", count(here.batch)),
        (f"critical batch at a loss of {choice.loss:g}", count(choice.critical_batch)),
        ("examples, of the least", _times(choice.examples(here.ranks))),
    ]
    return Readout(rows, [_verdict(here), *_NOTES])


def _verdict(here: Spot) -> str:
    if here.region == WALL:
        return "Here: the memory wall. The step is what it would take if there were room."
    if here.region == HIDES:
        return f"Here: communication hides. Less than {COSTLY:.0%} of the step is exposed."
    paced = "messages, whatever their size" if here.region == LATENCY else "bytes"
    return f"Here: {here.region}. Over {COSTLY:.0%} of the step is exposed, most of it for {paced}."


_NOTES = (
    f"Computed, not measured: models of GPT-3's proportions in sequences of {SEQUENCE:,} tokens, 16 bytes of "
    f"state a parameter, fused attention, buckets of 25 MiB, a ring. Assumed: compute alone reaches "
    f"{COMPUTE_SHARE:.0%} of the peak. Critical batch: Kaplan's formula, to an order of magnitude.",
    "Published runs had cards, links and batches of their own, which are not the map's. Sources: "
    + "; ".join(dict.fromkeys(run.source for run in published_runs.RUNS)) + ".",
    f"Left out: {'; '.join(LEFT_OUT)}.",
)  # fmt: skip


# --- the sliders ---


def explorer(start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget.  The sliders also stop where they start."""
    controls = {}
    for name, (text, stops) in _STOPS.items():
        value = getattr(start, name)
        texts = {each: text(each) for each in stops_with(stops, value)}
        controls[name] = selection(texts, value, _DESCRIPTIONS[name], "10em")
    return Explorer(Drawing(), controls, Choice, readout)


def _named_rate(rate: float) -> str:
    return byte_rate_text(rate) + (f": {_RATES[rate]}" if rate in _RATES else "")


_RATES = {  # IB: InfiniBand, each port; NVLink: each GPU (ml-engineering)
    125e6: "1 Gbit/s", 1.25e9: "10 Gbit/s", 12.5e9: "100 Gbit/s", 25e9: "IB HDR",
    50e9: "IB NDR", 100e9: "IB XDR", 300e9: "NVLink 3", 450e9: "NVLink 4", 900e9: "NVLink 5",
}  # fmt: skip
_STOPS: dict[str, tuple[Callable[[Any], str], Sequence]] = {  # how a value is written, and all values
    "card": (lambda name: ACCELERATORS[name].name, CARDS),
    "latency": (latency_text, [0.0, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3]),
    "bandwidth": (_named_rate, list(_RATES)),
    "tokens": (lambda tokens: f"{tokens:,}", [SEQUENCE * 2**n for n in range(7)]),
    "micro_batches": (str, [2**n for n in range(7)]),
    "loss": (lambda loss: f"{loss:g} nats", [2 + n / 4 for n in range(9)]),
    "parameters": (count, COLUMNS[::2]),
    "ranks": (lambda ranks: f"{ranks:,}", [2**n for n in range(13)]),
}  # fmt: skip
_DESCRIPTIONS = {
    "card": "card", "latency": "latency", "bandwidth": "link", "tokens": "micro-batch tokens",
    "micro_batches": "micro-batches K", "loss": "loss", "parameters": "parameters P", "ranks": "ranks N",
}  # fmt: skip
