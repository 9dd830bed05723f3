"""Explorer of lesson 01: what fills a GPU's memory, and whether it fits.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what ``need`` computes with the library's formulas, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log10, nan
from typing import Literal

import ipywidgets as widgets
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from course_lib.activations import layer_terms, model_bytes
from course_lib.arguments import one_of, whole_number
from course_lib.explorers.fast_canvas import layer_on_top, log_axis
from course_lib.explorers.units import axis_end, count, size
from course_lib.explorers.widget import Explorer, Readout
from course_lib.hardware import ACCELERATORS
from course_lib.memory import RECIPES, largest_model, model_state
from course_lib.palette import color_of
from course_lib.pictures import Looks, Picture
from course_lib.transformer import CONFIGS, TransformerConfig

BY_PARAMETERS = "as GPT-3"  # the shape that follows from P
PIECES = ("weights", "gradients", "master", "optimizer", "activations")
# The driver's number is not known for every card; the vendor's is not what a program gets.
CARDS = [name for name, card in ACCELERATORS.items() if card.memory_bytes is not None]
LEAST, MOST = 10**7, 10**13  # parameters
_PER_DECADE = 20  # stops of the slider of P
_NEAR = 0.05  # a shape whose own parameters differ by more is not quite the one that was asked for
_VOCABULARY = 50257  # GPT-3's, for shapes that follow from P

Point = tuple[int, int, str]  # parameters, bytes, label


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand.

    ``shape`` is a name of transformer.CONFIGS, whose parameters must then be ``parameters``, or
    ``BY_PARAMETERS``: GPT-3's proportions at this size.  ``micro_batch`` is in sequences, ``sequence`` in
    tokens.  With ``recompute="selective"`` as much is kept as with fused attention.  ``zero_stage`` and
    ``ranks`` are those of the second bar; the first is always one GPU alone.
    Raises ValueError for a name that there is not, and numbers that do not fit.
    """

    parameters: int = CONFIGS["llama-2-7b"].parameters
    shape: str = "llama-2-7b"
    recipe: str = "mixed-adam"
    card: str = "h100-sxm"
    micro_batch: int = 1
    sequence: int = 2048
    recompute: str = "selective"
    zero_stage: int = 0
    ranks: int = 8

    def __post_init__(self) -> None:
        whole_number("parameters", self.parameters)
        one_of("card", self.card, CARDS)
        if one_of("shape", self.shape, [BY_PARAMETERS, *CONFIGS]) == BY_PARAMETERS:
            return
        expected = CONFIGS[self.shape].parameters
        if self.parameters != expected:
            raise ValueError(
                f"parameters={self.parameters!r}: expected {expected}, those of {self.shape}, or "
                f"shape={BY_PARAMETERS!r}"
            )

    @property
    def capacity(self) -> int:
        """The card's memory in bytes, as its driver shows it."""
        return ACCELERATORS[self.card].memory_bytes

    @property
    def rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """ZeRO stage and number of ranks of the two bars: one GPU alone, and each of the ranks."""
        return (0, 1), (self.zero_stage, self.ranks)

    @property
    def config(self) -> TransformerConfig:
        return shape_for(self.parameters) if self.shape == BY_PARAMETERS else CONFIGS[self.shape]


@lru_cache
def shape_for(parameters: int) -> TransformerConfig:
    """A transformer of GPT-3's proportions, with about so many parameters in its layers.

    GPT-3 175B has hidden = 128·L and heads of 128, so P is about 12·L·hidden² = 12·128²·L³.
    """
    layers = max(1, round((parameters / (12 * 128**2)) ** (1 / 3)))
    return TransformerConfig(layers, 128 * layers, layers, _VOCABULARY, learned_positions=False)


@dataclass(frozen=True)
class Need:
    """What one GPU must hold, in bytes for each of PIECES, and what its memory can."""

    pieces: dict[str, int]
    capacity: int

    @property
    def total(self) -> int:
        return sum(self.pieces.values())

    @property
    def state(self) -> int:
        """All but the activations."""
        return self.total - self.pieces["activations"]

    @property
    def verdict(self) -> str:
        free = self.capacity - self.total
        return f"fits, {size(free)} free" if free >= 0 else f"{size(-free)} too much"


def need(choice: Choice) -> tuple[Need, Need]:
    """What one GPU alone must hold, and what each of the choice's ranks must hold."""
    activations = model_bytes(choice.config, choice.micro_batch, choice.sequence, recompute=choice.recompute)
    states = [model_state(choice.parameters, choice.recipe, *row) for row in choice.rows]
    pieces = [{name: getattr(state, name) for name in PIECES[:-1]} for state in states]
    alone, each = (Need({**piece, "activations": activations}, choice.capacity) for piece in pieces)
    return alone, each


def largest_models(choice: Choice) -> tuple[int, int]:
    """The most parameters whose model state alone fits: on one GPU, and with the choice's ranks."""
    alone, each = (largest_model(choice.capacity, choice.recipe, *row) for row in choice.rows)
    return alone, each


# --- the picture ---

_SIZE = (7.4, 5.1)  # inches
_FONT = 9  # points
_CARD_COLOR = "#5A5A5A"
_CARD_SIZES = [end(ACCELERATORS[name].memory_bytes for name in CARDS) for end in (min, max)]
_CLEAR = 4  # pixels between a name and a card's line
_PARAMETER_TICKS = {10**n: count(10**n) for n in range(7, 14)}
_BYTE_TICKS = {10**n: size(10**n) for n in range(7, 16)}
_FEWEST_BYTES, _MOST_BYTES = min(_BYTE_TICKS), max(_BYTE_TICKS)
_LOOKS: dict[str, Looks] = {
    "weights": {"facecolor": color_of("weights")},
    "gradients": {"facecolor": color_of("gradients")},
    # The palette has no color for the fp32 copy of the weights: it is the weights' color, hatched.
    "master": {"facecolor": color_of("weights"), "hatch": "////", "edgecolor": "white", "linewidth": 0},
    "optimizer": {"facecolor": color_of("optimizer state")},
    "activations": {"facecolor": color_of("activations")},
}
# One GPU alone, and each of N.
_STYLES: tuple[Literal["-"], Literal["--"]] = ("-", "--")
_LARGEST: Looks = {"marker": "D", "markersize": 5, "color": _CARD_COLOR, "linestyle": "none"}
_MEASURED: Looks = {"marker": "x", "markersize": 7, "markeredgewidth": 1.5, "color": "black",
                    "linestyle": "none"}  # fmt: skip
_MARKS: tuple[Looks, Looks] = (
    {"marker": "o", "markersize": 6, "color": "black"},
    {"marker": "o", "markersize": 11, "color": "black", "fillstyle": "none"},
)
LONG_NAMES = {"master": "fp32 master weights", "optimizer": "optimizer state"}


def figure(choice: Choice, points: Sequence[Point] = ()) -> Picture:
    """Draw what a choice needs, above its place among all models, with measured points on the same axes.

    Above: bytes on a GPU over parameters, both logarithmic, and the card's memory.  Below: the same bytes
    piece by piece, for one GPU alone and for each of the choice's ranks.
    """
    drawing = Drawing(points)
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves.

    Each letter of a changing text takes its time, so the picture says little that the readout says as well.
    """

    def __init__(self, points: Sequence[Point] = ()):
        self.figure = Picture(figsize=_SIZE, description="")
        self._plane = _Plane(self.figure.add_axes((0.12, 0.465, 0.775, 0.415)), points)
        self._bars = _Bars(self.figure.add_axes((0.03, 0.147, 0.925, 0.201)))
        self.changing = layer_on_top([*self._plane.changing, *self._bars.changing])
        pieces = [Patch(label=LONG_NAMES.get(piece, piece), **_LOOKS[piece]) for piece in PIECES]
        handles = [*pieces, Line2D([], [], color=_CARD_COLOR, linewidth=2, label="the card")]
        looks: Looks = {"frameon": False, "fontsize": _FONT, "columnspacing": 1.4, "handletextpad": 0.5}
        self.figure.legend(handles=handles, loc="lower center", ncols=6, handlelength=1.4, **looks)
        self.figure.legend(handles=_key(points), loc="upper left", ncols=2, handlelength=2.8, **looks)

    def show(self, choice: Choice) -> None:
        alone, each = need(choice)
        self._plane.show(choice, alone, each)
        self._bars.show(alone, each)
        self.figure.description = description(choice)


class _Plane:
    """Bytes over parameters: the lines of the model state, the card's memory, and where the choice stands."""

    def __init__(self, axes: Axes, points: Sequence[Point]):
        log_axis(axes.xaxis, LEAST, MOST, _PARAMETER_TICKS)
        log_axis(axes.yaxis, _FEWEST_BYTES, _MOST_BYTES, _BYTE_TICKS)
        axes.tick_params(labelsize=_FONT)
        axes.grid(color="#E8E8E8", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel("parameters P", fontsize=_FONT)
        axes.set_ylabel("bytes on each GPU", fontsize=_FONT)
        axes.spines[["top", "right"]].set_visible(False)
        names = [_draw_point(axes, *point) for point in points]
        self._names = [(name, name.get_window_extent()) for name in names]
        self._card = axes.axhline(0, color=_CARD_COLOR, linewidth=1.5)
        self._card_size = axes.annotate("", (log10(MOST), 0), xytext=(8, 0), textcoords="offset points",
                                        va="center", fontsize=_FONT, color=_CARD_COLOR)  # fmt: skip
        self._lines = [axes.plot([], [], "k", linestyle=style, linewidth=1.2)[0] for style in _STYLES]
        self._largest = axes.plot([], [], **_LARGEST)[0]
        self._stem = axes.plot([], [], color=color_of("activations"), linewidth=5, solid_capstyle="butt")[0]
        self._dot, self._ring = (axes.plot([], [], clip_on=False, **mark)[0] for mark in _MARKS)
        self._moving = [self._card, *self._lines, self._largest, self._stem, self._ring, self._dot]
        self.changing = [*names, self._card_size, *self._moving]

    def show(self, choice: Choice, alone: Need, each: Need) -> None:
        capacity = log10(choice.capacity)
        self._card.set_ydata([capacity, capacity])
        self._card_size.xy = log10(MOST), capacity
        self._card_size.set_text(size(choice.capacity))
        for line, (stage, ranks) in zip(self._lines, choice.rows, strict=True):
            ends = [model_state(end, choice.recipe, stage, ranks).total for end in (LEAST, MOST)]
            line.set_data([log10(LEAST), log10(MOST)], [log10(end) for end in ends])
        self._largest.set_data([log10(largest) for largest in largest_models(choice)], 2 * [capacity])
        x = log10(choice.parameters)
        self._stem.set_data([x, x], [_height(alone.state), _height(alone.total)])
        _put(self._dot, x, alone.total)
        _put(self._ring, x, each.total)
        for name, box in self._names:  # one that is in the way is not shown
            name.set_visible(not any(_touches(line, box) for line in self._moving))


def _key(points: Sequence[Point]) -> list[Line2D]:
    """Of the plane, for a place outside, where nothing moves over it."""
    key = [
        Line2D([], [], linestyle=_STYLES[0], linewidth=1.2, **_MARKS[0],
               label="one GPU alone (line: model state; point: with activations)"),
        Line2D([], [], linestyle=_STYLES[1], linewidth=1.2, **_MARKS[1], label="each of N GPUs"),
        Line2D([], [], **_LARGEST, label="largest model whose state alone fits"),
    ]  # fmt: skip
    return [*key, Line2D([], [], **_MEASURED, label="measured")] if points else key


def _draw_point(axes: Axes, parameters: int, number: int, label: str) -> Annotation:
    """Returns its name, which keeps clear of the line it lies on and of all cards' lines."""
    if not (parameters > 0 and number > 0):
        raise ValueError(f"point {(parameters, number, label)!r}: expected parameters and bytes above 0")
    place = log10(parameters), log10(number)
    axes.plot(*place, **_MEASURED)
    name = axes.annotate(label, place, xytext=(-7, 7), textcoords="offset points", ha="right", va="center",
                         fontsize=_FONT - 1)  # fmt: skip
    if name.get_window_extent().x0 < axes.bbox.x0:
        name.set(position=(7, -7), ha="left")
    least, most = (axes.transData.transform((0, log10(end)))[1] for end in _CARD_SIZES)
    box = name.get_window_extent().padded(_CLEAR)
    if box.y0 < most and box.y1 > least:
        x, y = name.get_position()
        name.set(position=(x, y + (most - box.y0) * 72 / axes.figure.dpi))
    return name


def _touches(line: Line2D, box: Bbox) -> bool:
    """Whether a line or its mark runs through a box of the page."""
    path = line.get_transform().transform_path(line.get_path())
    marked = line.get_marker() not in ("", "None", None)
    thickness = line.get_markersize() if marked else line.get_linewidth()
    around = box.padded(thickness / 2 * line.figure.dpi / 72)
    if around.count_contains(path.vertices):
        return True
    return line.get_linestyle() != "None" and path.intersects_bbox(around, filled=False)


class _Bars:
    """The pieces end to end on a linear axis, for one GPU alone and for each rank, against the card."""

    def __init__(self, axes: Axes):
        axes.set(xlim=(0, 1), ylim=(2, 0))
        axes.set_xticks([n / 10 for n in range(11)], ["0", *10 * [""]], fontsize=_FONT)
        axes.set_yticks([])
        axes.set_xlabel("bytes on each GPU", fontsize=_FONT)
        axes.spines[["top", "right"]].set_visible(False)
        for row, name in enumerate(("one GPU alone:", "each of N GPUs:")):
            axes.text(0.006, row + 0.21, name, va="center", fontsize=_FONT)
        self._verdicts = [axes.text(0.171, row + 0.21, "", va="center", fontsize=_FONT) for row in range(2)]
        below = axes.get_xaxis_transform()
        self._ticks = [axes.text(x, -0.09, "", ha="center", va="top", fontsize=_FONT, transform=below)
                       for x in _LABELED]  # fmt: skip
        self._rows = [[axes.add_patch(Rectangle((0, row + 0.4), 0, 0.5, **_LOOKS[piece])) for piece in PIECES]
                      for row in range(2)]  # fmt: skip
        self._card = axes.plot([], [], color=_CARD_COLOR, linewidth=2)[0]
        patches = [patch for row in self._rows for patch in row]
        self.changing = [*patches, self._card, *self._verdicts, *self._ticks]

    def show(self, alone: Need, each: Need) -> None:
        end = axis_end(max(alone.total, alone.capacity))
        for patches, needed, verdict in zip(self._rows, (alone, each), self._verdicts, strict=True):
            _lay_end_to_end(patches, [needed.pieces[piece] / end for piece in PIECES])
            verdict.set_text(needed.verdict)
        self._card.set_data(5 * [alone.capacity / end], [0.4, 0.98, nan, 1.4, 1.98])
        for x, tick in zip(_LABELED, self._ticks, strict=True):
            tick.set_text(size(x * end))


_LABELED = (0.5, 1.0)  # where the bars' axis has numbers


def _lay_end_to_end(patches: Sequence[Patch], widths: Sequence[float]) -> None:
    left = 0.0
    for patch, width in zip(patches, widths, strict=True):
        patch.set(x=left, width=width)
        left += width


def _put(mark: Line2D, x: float, number: int) -> None:
    """At a number of bytes, or as an arrow at the edge beyond which it lies."""
    mark.set_data([x], [_height(number)])
    mark.set_marker("^" if number > _MOST_BYTES else "v" if number < _FEWEST_BYTES else "o")


def _height(number: int) -> float:
    """Where on the axis of bytes, or at its nearer edge."""
    return log10(min(max(number, _FEWEST_BYTES), _MOST_BYTES))


def row_names(choice: Choice) -> tuple[str, str]:
    how = f"ZeRO-{choice.zero_stage}" if choice.zero_stage else "plain data parallel"
    return "one GPU alone", f"each of {choice.ranks:,}, {how}"


def card_text(card: str) -> str:
    return f"{ACCELERATORS[card].name}: {size(ACCELERATORS[card].memory_bytes)}"


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"Bytes on each GPU for {choice.parameters:,} parameters with {choice.recipe}, against the memory of "
        f"{ACCELERATORS[choice.card].name}: one GPU alone, and each of {choice.ranks:,} GPUs."
    )


# --- the numbers beside it ---


def readout(choice: Choice) -> Readout:
    """The picture in numbers, for one GPU alone and for each of the choice's ranks."""
    both = need(choice)
    pieces = [
        (LONG_NAMES.get(piece, piece), *(size(needed.pieces[piece]) for needed in both)) for piece in PIECES
    ]
    rows = [
        ("on each GPU", *row_names(choice)),
        *pieces,
        ("total", *(size(needed.total) for needed in both)),
        ("in bytes", *(f"{needed.total:,}" for needed in both)),
        (f"on {ACCELERATORS[choice.card].name}", *(needed.verdict for needed in both)),
        ("largest P, state alone", *map(count, largest_models(choice))),
    ]
    return Readout(rows, _notes(choice))


def _notes(choice: Choice) -> list[str]:
    config, card = choice.config, ACCELERATORS[choice.card]
    shape = "GPT-3's proportions" if choice.shape == BY_PARAMETERS else choice.shape
    notes = [
        f"{choice.parameters:,} parameters, {shape}: {config.layers} layers, hidden {config.hidden:,}, "
        f"{config.heads} heads.",
        f"Each GPU has its own micro-batch of {choice.micro_batch} × {choice.sequence:,} tokens. "
        "GB = 10⁹ bytes. CUDA's own memory and temporary buffers are not counted.",
        "The total is an upper bound: gradients and activations are rarely all alive at once.",
    ]
    if choice.shape == BY_PARAMETERS and abs(config.parameters / choice.parameters - 1) > _NEAR:
        notes[0] += f" The nearest such shape has {count(config.parameters)} parameters, with its vocabulary."
    if choice.recompute == "full":
        again = sum(layer_terms(config, choice.micro_batch, choice.sequence, attention="fused").values())
        notes[-1] += f" But backward's one layer, computed again, comes on top: {size(again)}."
    if config.learned_positions and choice.sequence > config.positions:
        notes.append(f"{choice.shape} itself has positions for {config.positions:,} tokens only.")
    if card.bf16_flops is None and card.fp16_flops is not None:  # both None: only not known
        notes.append(f"{card.name} has no bf16: fp16 takes as many bytes, and needs loss scaling.")
    return notes


# --- the sliders ---


def explorer(points: Sequence[Point] = (), start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget.  ``points`` were measured: (parameters, bytes, label) each."""
    controls = _controls(start)
    _couple(controls["parameters"], controls["shape"])
    return Explorer(Drawing(points), controls, Choice, readout)


def _controls(start: Choice) -> dict[str, widgets.ValueWidget]:
    """One control for each field of Choice."""
    slider, menu = widgets.SelectionSlider, widgets.Dropdown
    recipes = [(f"{name}: {recipe.total} bytes per parameter", name) for name, recipe in RECIPES.items()]
    controls = {
        "parameters": slider(options=[(count(stop), stop) for stop in _stops(start.parameters)]),
        "shape": menu(options=[BY_PARAMETERS, *CONFIGS]),
        "recipe": menu(options=recipes),
        "card": menu(options=[(card_text(name), name) for name in CARDS]),
        "micro_batch": slider(options=_powers_of_two(0, 7)),
        "sequence": slider(options=_powers_of_two(7, 17)),
        "recompute": menu(options=_RECOMPUTE),
        "zero_stage": menu(options=_ZERO),
        "ranks": slider(options=_powers_of_two(0, 12)),
    }
    for name, control in controls.items():
        control.value = getattr(start, name)
        control.description = _DESCRIPTIONS[name]
        control.style.description_width = "11em"
        control.layout.width = "auto"
    return controls


def _powers_of_two(first: int, last: int) -> list[tuple[str, int]]:
    return [(f"{2**n:,}", 2**n) for n in range(first, last + 1)]


def _stops(start: int) -> list[int]:
    """Where the slider of P stops: evenly on a logarithmic scale, at each known model, and at ``start``."""
    decades = round(log10(MOST / LEAST))
    even = (int(float(f"{LEAST * 10 ** (n / _PER_DECADE):.3g}")) for n in range(decades * _PER_DECADE + 1))
    return sorted({*even, *(config.parameters for config in CONFIGS.values()), start})


_RECOMPUTE = [
    ("nothing, eager attention keeps its scores", "none"),
    ("no scores: fused attention, or selective", "selective"),
    ("full: each layer keeps its input only", "full"),
]
_ZERO = [
    ("none: plain data parallel", 0),
    ("1: optimizer state", 1),
    ("2: and gradients", 2),
    ("3: and weights", 3),
]
_DESCRIPTIONS = {
    "parameters": "parameters P",
    "shape": "shape",
    "recipe": "recipe",
    "card": "card",
    "micro_batch": "micro-batch b",
    "sequence": "sequence (tokens)",
    "recompute": "recompute",
    "zero_stage": "outlook: ZeRO stage",
    "ranks": "outlook: GPUs N",
}


def _couple(parameters: widgets.SelectionSlider, shape: widgets.Dropdown) -> None:
    """A known shape sets P; another P is no longer that shape."""

    def shape_chosen(change: dict) -> None:
        if shape.value != BY_PARAMETERS:
            parameters.value = CONFIGS[shape.value].parameters

    def parameters_moved(change: dict) -> None:
        if shape.value != BY_PARAMETERS and parameters.value != CONFIGS[shape.value].parameters:
            shape.value = BY_PARAMETERS

    shape.observe(shape_chosen, "value")
    parameters.observe(parameters_moved, "value")
