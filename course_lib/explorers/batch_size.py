"""Explorer of lesson 05: a batch of N·K·b sequences, what it is worth, and what each way to it costs.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what the library's formulas give for one small GPT: memory, cost model, noise scale.  The only measured
numbers are points that are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from course_lib.activations import model_bytes
from course_lib.arguments import number, whole_number
from course_lib.cost_model import all_reduce_seconds
from course_lib.explorers.fast_canvas import layer_on_top, log_axis
from course_lib.explorers.units import axis_end, count, duration, four_digits, rate_text, size
from course_lib.explorers.widget import Explorer, Readout, selection, stops_with
from course_lib.hardware import ACCELERATORS
from course_lib.memory import model_state
from course_lib.noise_scale import critical_batch_tokens, tradeoff
from course_lib.palette import EXAMPLES_COLOR, color_of
from course_lib.pictures import Looks, Picture
from course_lib.transformer import CONFIGS

MODEL, SEQUENCE = "gpt-2-small", 1024  # tokens
RECIPE = "mixed-adam-fp32-grads"  # micro-gradients add up in fp32, as this lesson advises
MOST_RANKS, MOST_MICRO_BATCHES, MOST_SEQUENCES = 256, 256, 32
_MOST = {"ranks": MOST_RANKS, "micro_batches": MOST_MICRO_BATCHES, "sequences": MOST_SEQUENCES}
_CONFIG = CONFIGS[MODEL]
_STATE = model_state(_CONFIG.parameters, RECIPE)

Point = tuple[int, int]  # sequences at once, bytes of activations


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand.

    ``ranks`` N, ``micro_batches`` K and ``sequences`` b, those of a micro-batch.  ``loss``, in nats per
    token, is the one at which the batch is judged.  ``rate``: bytes/s of each link in one direction.
    ``flops``: FLOP/s that a rank achieves.  Raises ValueError for what is not on the sliders, or can't be.
    """

    ranks: int = 8
    micro_batches: int = 4
    sequences: int = 4
    loss: float = 3.0
    rate: float = 50e6
    flops: float = 1e12

    def __post_init__(self) -> None:
        for name, end in _MOST.items():
            if whole_number(name, getattr(self, name)) > end:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected 1 to {end}")
        number("loss", self.loss, least=2, most=6)
        number("rate", self.rate, least=1e3, most=1e13)
        number("flops", self.flops, least=1e6, most=1e18)

    @property
    def effective(self) -> int:
        """B_eff, in sequences."""
        return self.ranks * self.micro_batches * self.sequences

    @property
    def tokens(self) -> int:
        """B_eff, in tokens."""
        return self.effective * SEQUENCE

    @property
    def critical(self) -> float:
        """The critical batch in tokens, by Kaplan's formula."""
        return critical_batch_tokens(self.loss)

    @property
    def tradeoff(self) -> tuple[float, float]:
        """Steps and examples until the loss, each in times of the least."""
        return tradeoff(self.tokens, self.critical)


class Cost(NamedTuple):
    """What one way to the same batch costs on each rank: counts, bytes, seconds of a step."""

    micro_batches: int
    at_once: int  # sequences
    all_reduces: int
    activations: int
    compute: float
    communication: float

    @property
    def seconds(self) -> float:
        return self.compute + self.communication


def costs(choice: Choice) -> dict[str, Cost]:
    """Three ways to the choice's batch: accumulate and synchronize once, or each time; or all at once."""
    k, b = choice.micro_batches, choice.sequences
    return {
        "one all-reduce": _cost(choice, k, b, 1),
        "K all-reduces": _cost(choice, k, b, k),
        "all at once": _cost(choice, 1, k * b, 1),
    }


def _cost(choice: Choice, micro_batches: int, at_once: int, all_reduces: int) -> Cost:
    all_reduces = all_reduces if choice.ranks > 1 else 0
    flops = _CONFIG.flops_per_token(SEQUENCE) * SEQUENCE * at_once * micro_batches
    return Cost(micro_batches, at_once, all_reduces, activations(at_once), flops / choice.flops,
                all_reduces * _all_reduce_seconds(choice))  # fmt: skip


def activations(sequences: int) -> int:
    """Bytes of activations when so many sequences go through the model at once."""
    return model_bytes(_CONFIG, sequences, SEQUENCE, attention="fused")


def _all_reduce_seconds(choice: Choice) -> float:
    """Of the gradients by the ring: those of the bytes alone."""
    return all_reduce_seconds("ring", _STATE.gradients, choice.ranks, 0, choice.rate)


def flops_text(flops: float) -> str:
    return four_digits(flops, {"PFLOP/s": 1e15, "TFLOP/s": 1e12, "GFLOP/s": 1e9})


# --- the picture ---

_SIZE = (7.4, 5.6)  # inches
_FONT = 9  # points
_TOKEN_TICKS = {10**power: count(10**power) for power in range(3, 10)}
_TIMES_TICKS = {10**power: f"{count(10**power)}×" for power in range(6)}
_MOST_AT_ONCE = MOST_MICRO_BATCHES * MOST_SEQUENCES
_FEWEST_TOKENS, _MOST_TOKENS = SEQUENCE / 1.5, 1.5 * MOST_RANKS * _MOST_AT_ONCE * SEQUENCE
_CURVE = [_FEWEST_TOKENS * (_MOST_TOKENS / _FEWEST_TOKENS) ** (part / 150) for part in range(151)]  # tokens
_AT_ONCE_TICKS = {number: f"{number:,}" for number in (1, 10, 100, 1000)}
_BYTE_TICKS = {10**power: size(10**power) for power in range(9, 14)}
_STEPS: Looks = {"color": "black", "linewidth": 2}
_EXAMPLES: Looks = {"color": EXAMPLES_COLOR, "linewidth": 2}
_CRITICAL: Looks = {"color": "black", "linewidth": 1.2, "linestyle": ":"}
_HERE: Looks = {"color": "black", "linewidth": 1.2, "linestyle": "--"}
_MARK: Looks = {"marker": "o", "markersize": 6, "color": "black", "linestyle": "none"}
_ACTIVATIONS: Looks = {"color": color_of("activations"), "linewidth": 2}
_NOW: Looks = {**_MARK, "markersize": 7, "color": color_of("activations"), "markeredgecolor": "black"}
_AT_ONCE: Looks = {**_NOW, "markerfacecolor": "white", "markeredgecolor": color_of("activations"),
                   "markeredgewidth": 1.6}  # fmt: skip
_MEASURED: Looks = {"marker": "x", "markersize": 7, "markeredgewidth": 1.5, "color": "black",
                    "linestyle": "none"}  # fmt: skip
_BARS: dict[str, Looks] = {"compute": {"facecolor": color_of("compute")},
                           "communication": {"facecolor": color_of("communication")}}  # fmt: skip
_ENDS = {0.5: "center", 1.0: "right"}  # where the bars' axis has numbers, and how they are aligned
_UNITS = {"days": 86400, "h": 3600, "min": 60, "s": 1, "ms": 1e-3, "µs": 1e-6}


def figure(choice: Choice, points: Sequence[Point] = ()) -> Picture:
    """Draw what a choice's batch is worth, and below it the activations and the time of a step.

    Above, steps and examples to a loss over the batch, in times of the least.  Below, activations over the
    sequences that go through the model at once, with measured points on the same axes; and the seconds of a
    step with one all-reduce and with K.  Raises ValueError for a point that can't be drawn.
    """
    drawing = Drawing(points)
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, points: Sequence[Point] = ()):
        self.figure = Picture(figsize=_SIZE, description="")
        self._worth = _Worth(self.figure.add_axes((0.115, 0.575, 0.865, 0.355)))
        self._memory = _Memory(self.figure.add_axes((0.115, 0.16, 0.345, 0.29)), points)
        self._time = _Time(self.figure.add_axes((0.53, 0.16, 0.45, 0.29)))
        self.changing = layer_on_top([*self._worth.changing, *self._memory.changing, *self._time.changing])
        _draw_keys(self.figure, bool(points))

    def show(self, choice: Choice) -> None:
        ways = costs(choice)
        self._worth.show(choice)
        self._memory.show(choice)
        self._time.show([ways["one all-reduce"], ways["K all-reduces"]])
        self.figure.description = description(choice)


class _Worth:
    """Steps and examples over the batch, both logarithmic: the curves move with the loss."""

    def __init__(self, axes: Axes):
        log_axis(axes.xaxis, _FEWEST_TOKENS, _MOST_TOKENS, _TOKEN_TICKS)
        log_axis(axes.yaxis, 0.8, 1e5, _TIMES_TICKS)
        _dress(axes, "batch B_eff (tokens)", "times the least")
        self._steps, self._examples = (axes.plot([], [], **look)[0] for look in (_STEPS, _EXAMPLES))
        self._critical, self._here = (axes.axvline(0, **look) for look in (_CRITICAL, _HERE))
        self._marks = axes.plot([], [], clip_on=False, **_MARK)[0]
        self.changing = [self._critical, self._here, self._steps, self._examples, self._marks]

    def show(self, choice: Choice) -> None:
        both = [tradeoff(tokens, choice.critical) for tokens in _CURVE]
        places = [log10(tokens) for tokens in _CURVE]
        for line, heights in zip((self._steps, self._examples), zip(*both, strict=True), strict=True):
            line.set_data(places, [log10(height) for height in heights])
        for line, tokens in ((self._critical, choice.critical), (self._here, choice.tokens)):
            line.set_xdata(2 * [log10(tokens)])
        self._marks.set_data(2 * [log10(choice.tokens)], [log10(height) for height in choice.tradeoff])


class _Memory:
    """Activations over the sequences at once: a line that stays, and where the choice stands on it."""

    def __init__(self, axes: Axes, points: Sequence[Point]):
        log_axis(axes.xaxis, 0.8, 1.3 * _MOST_AT_ONCE, _AT_ONCE_TICKS)
        log_axis(axes.yaxis, activations(1) / 2, 2 * activations(_MOST_AT_ONCE), _BYTE_TICKS)
        _dress(axes, "sequences at once on each GPU", "activations")
        ends = 1, _MOST_AT_ONCE
        axes.plot([log10(end) for end in ends], [log10(activations(end)) for end in ends], **_ACTIVATIONS)
        axes.plot(*_places(points), **_MEASURED)
        self._at_once, self._now = (axes.plot([], [], clip_on=False, **look)[0] for look in (_AT_ONCE, _NOW))
        self.changing = [self._at_once, self._now]

    def show(self, choice: Choice) -> None:
        for mark, sequences in (
            (self._now, choice.sequences), (self._at_once, choice.micro_batches * choice.sequences),
        ):  # fmt: skip
            mark.set_data([log10(sequences)], [log10(activations(sequences))])


class _Time:
    """Seconds of a step, compute and then communication, with one all-reduce and with K."""

    def __init__(self, axes: Axes):
        axes.set(xlim=(0, 1), ylim=(2, 0))
        axes.set_xticks([n / 10 for n in range(11)], ["0", *10 * [""]], fontsize=_FONT)
        axes.set_yticks([])
        axes.set_xlabel("time of a step, computed", fontsize=_FONT, labelpad=4)
        axes.spines[["top", "right"]].set_visible(False)
        for row, name in enumerate(("one all-reduce", "one for each micro-batch")):
            axes.text(0.01, row + 0.26, name, va="center", fontsize=_FONT)
        self._totals = [axes.text(1, row + 0.26, "", ha="right", va="center", fontsize=_FONT)
                        for row in range(2)]  # fmt: skip
        below = axes.get_xaxis_transform()
        self._ticks = [axes.text(x, -0.06, "", ha=side, va="top", fontsize=_FONT, transform=below)
                       for x, side in _ENDS.items()]  # fmt: skip
        self._rows = [[axes.add_patch(Rectangle((0, row + 0.44), 0, 0.44, **look)) for look in _BARS.values()]
                      for row in range(2)]  # fmt: skip
        self.changing = [*(patch for row in self._rows for patch in row), *self._totals, *self._ticks]

    def show(self, ways: Sequence[Cost]) -> None:
        longest = max(way.seconds for way in ways)
        unit, factor = next(each for each in _UNITS.items() if longest >= each[1])
        end = factor * axis_end(longest / factor)
        for (compute, communication), total, way in zip(self._rows, self._totals, ways, strict=True):
            compute.set(width=way.compute / end)
            communication.set(x=way.compute / end, width=way.communication / end)
            total.set_text(duration(way.seconds))
        for x, tick in zip(_ENDS, self._ticks, strict=True):
            tick.set_text(f"{x * end / factor:g} {unit}")


def _dress(axes: Axes, across: str, up: str) -> None:
    axes.tick_params(labelsize=_FONT)
    axes.grid(color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(across, fontsize=_FONT, labelpad=2)
    axes.set_ylabel(up, fontsize=_FONT)


def _places(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Where on the axes of _Memory."""
    sequences = [log10(whole_number("sequences", each)) for each, _ in points]
    return sequences, [log10(whole_number("bytes", each)) for _, each in points]


def _draw_keys(figure: Picture, measured: bool) -> None:
    worth: list[Artist] = [
        Line2D([], [], label="steps", **_STEPS),
        Line2D([], [], label="examples", **_EXAMPLES),
        Line2D([], [], label="critical batch", **_CRITICAL),
        Line2D([], [], label="your batch", **{**_MARK, **_HERE}),
    ]
    costs: list[Artist] = [
        Line2D([], [], label="b sequences at once", **_NOW),
        Line2D([], [], label="all K·b at once", **_AT_ONCE),
        *(Patch(label=name, **look) for name, look in _BARS.items()),
    ]
    if measured:
        costs.insert(2, Line2D([], [], label="measured", **_MEASURED))
    looks: Looks = {"frameon": False, "fontsize": _FONT, "columnspacing": 1.6, "handletextpad": 0.6}
    figure.legend(handles=worth, loc="upper center", ncols=len(worth), **looks)
    figure.legend(handles=costs, loc="lower center", ncols=len(costs), **looks)


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"Above, steps and examples to a loss of {choice.loss:g} over the batch, in times of the least, with "
        f"your batch of {choice.tokens:,} tokens marked. Below, activations over the sequences that a GPU "
        "takes at once, and bars for the time of a step with one all-reduce and with one for each "
        "micro-batch."
    )


# --- the numbers beside it ---


def readout(choice: Choice) -> Readout:
    """The picture in numbers: one column for each way to the same batch."""
    ways = costs(choice)
    columns = ways.values()
    rows = [
        ("", *ways),
        ("micro-batches", *(f"{way.micro_batches:,}" for way in columns)),
        ("sequences at once", *(f"{way.at_once:,}" for way in columns)),
        ("activations", *(size(way.activations) for way in columns)),
        ("with model state", *(size(way.activations + _STATE.total) for way in columns)),
        ("all-reduces a step", *(f"{way.all_reduces:,}" for way in columns)),
        ("time of all-reduces", *(_seconds_text(way.communication) for way in columns)),
        ("time of compute", *(_seconds_text(way.compute) for way in columns)),
        ("time of a step", *(_seconds_text(way.seconds) for way in columns)),
    ]
    return Readout(rows, _notes(choice))


def _seconds_text(seconds: float) -> str:
    return duration(seconds) if seconds else "0 s"


def _notes(choice: Choice) -> list[str]:
    steps, examples = choice.tradeoff
    plural = "s" if choice.effective > 1 else ""
    factors = f"{choice.ranks:,} · {choice.micro_batches:,} · {choice.sequences:,}"
    return [
        f"B_eff = N·K·b = {factors} = {choice.effective:,} sequence{plural} of {SEQUENCE:,} tokens, "
        f"{choice.tokens:,} tokens a step.",
        f"At a loss of {choice.loss:g} the critical batch is {count(choice.critical)} tokens (Kaplan et al. "
        f"2020). This batch takes {_times(steps)} the least steps and {_times(examples)} the least examples.",
        f"Computed, not measured: {MODEL}, {_STATE.total // _CONFIG.parameters} bytes a parameter "
        f"({RECIPE}), fused attention; {flops_text(choice.flops)} on each rank; the ring with gradients of "
        f"{size(_STATE.gradients)} on links of {rate_text(choice.rate)}, no latency, no overlap.",
    ]


def _times(factor: float) -> str:
    return f"{factor:.3g} times" if factor < 1000 else f"{float(f'{factor:.3g}'):,.0f} times"


# --- the sliders ---


def explorer(points: Sequence[Point] = (), start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget.  ``points``: activations measured for this model and sequence."""
    stops = {
        "ranks": {n: f"{n:,}" for n in stops_with(_COUNTS, start.ranks)},
        "micro_batches": {k: f"{k:,}" for k in stops_with(_COUNTS, start.micro_batches)},
        "sequences": {b: f"{b:,}" for b in stops_with(_SEQUENCES, start.sequences)},
        "loss": {loss: f"{loss:g} nats a token" for loss in stops_with(_LOSSES, start.loss)},
        "rate": {rate: rate_text(rate) for rate in stops_with(_RATES, start.rate)},
        "flops": {each: _named_flops(each) for each in stops_with(sorted([*_FLOPS, *_CARDS]), start.flops)},
    }
    controls = {
        name: selection(texts, getattr(start, name), _DESCRIPTIONS[name], "11em")
        for name, texts in stops.items()
    }
    return Explorer(Drawing(points), controls, Choice, readout)


def _named_flops(flops: float) -> str:
    return _CARDS.get(flops) or flops_text(flops)


_DESCRIPTIONS = {
    "ranks": "ranks N",
    "micro_batches": "micro-batches K",
    "sequences": "sequences b in each",
    "loss": "loss",
    "rate": "rate of each link",
    "flops": "compute of a rank",
}
_COUNTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
_SEQUENCES = [n for n in _COUNTS if n <= MOST_SEQUENCES]
_LOSSES = [2 + step / 4 for step in range(17)]
_RATES = [rate * 1e6 / 8 for rate in (100, 400, 1000, 10_000, 25_000, 100_000, 200_000, 400_000)]
_FLOPS = [float(f"{digit}e{power}") for power in range(10, 14) for digit in (1, 3)]
_CARDS = {0.4 * ACCELERATORS[card].bf16_flops: f"40% of {name}"
          for card, name in (("a100-80gb", "A100"), ("h100-sxm", "H100 SXM"), ("b200", "B200"))}
