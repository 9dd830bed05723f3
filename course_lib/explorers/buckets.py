"""Explorer of lesson 06: which gradients share a bucket, and when each bucket's all-reduce can start.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
what ``step`` takes from ``buckets`` and the simulator for a GPT of a given depth, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import inf
from typing import Any

from matplotlib.patches import Patch

from course_lib.arguments import number, one_of, whole_number
from course_lib.buckets import assign, limits
from course_lib.cost_model import all_reduce_seconds, terms
from course_lib.explorers.bars import Bar, Bars, TimeAxis
from course_lib.explorers.fast_canvas import layer_on_top
from course_lib.explorers.gpt_layers import gpt_layers
from course_lib.explorers.units import duration, rate_text, size
from course_lib.explorers.widget import Explorer, Readout, selection
from course_lib.palette import color_of
from course_lib.pictures import Picture
from course_lib.ring_drawing import FONT, WIDTH, sheet, text_width
from course_lib.simulator import LEFT_OUT, Layer, Step, simulate_step
from course_lib.transformer import CONFIGS

ORDERS = ("reverse", "forward", "as ready")
PLACES = ("first", "last")  # of the embedding's parameters among the module's
MOST_LAYERS, MOST_RANKS = 24, 1024
_MODEL, _SEQUENCES, _SEQUENCE = CONFIGS["gpt-2-small"], 8, 1024
_FLOPS, _RATE, _LATENCY = 125e12, 25e9, 5e-6
_FLOAT = 4  # bytes of an element


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand.

    ``bucket_mb``: MiB of a bucket; of the first one 1, unless all are in one.  ``layers`` of the GPT, and
    ``ranks`` N.  ``order``: in which buckets take parameters: ``reverse`` or ``forward`` as they are
    registered, or ``as ready``, in which gradients arrived in the first step.  ``embedding``: where it is
    registered.  Raises ValueError for what is not on the sliders.
    """

    bucket_mb: float = 25.0
    layers: int = 12
    order: str = "reverse"
    embedding: str = "first"
    ranks: int = 8

    def __post_init__(self) -> None:
        limits(self.bucket_mb, 1.0)
        number("layers", whole_number("layers", self.layers), least=1, most=MOST_LAYERS)
        one_of("order", self.order, ORDERS)
        one_of("embedding", self.embedding, PLACES)
        number("ranks", whole_number("ranks", self.ranks), least=2, most=MOST_RANKS)


@lru_cache
def layers_of(choice: Choice) -> list[Layer]:
    """In the order of the forward pass."""
    config = replace(_MODEL, layers=choice.layers)
    return gpt_layers(config, _SEQUENCES, _SEQUENCE, _FLOPS, _FLOAT)


def owners(choice: Choice) -> list[int]:
    """For each parameter, in the order of the forward pass, the index of its layer."""
    return [index for index, layer in enumerate(layers_of(choice)) for _ in layer.parameter_bytes]


def registered(choice: Choice) -> list[int]:
    """The parameters in the order of ``module.parameters()``."""
    embedding = [index for index, owner in enumerate(owners(choice)) if owner == 0]
    others = [index for index, owner in enumerate(owners(choice)) if owner != 0]
    return embedding + others if choice.embedding == "first" else others + embedding


@lru_cache
def step(choice: Choice) -> Step:
    """What happens, and when, with the choice's buckets."""
    layers = layers_of(choice)
    sizes = [size for layer in layers for size in layer.parameter_bytes]
    taken_last = {
        "reverse": registered(choice), "forward": registered(choice)[::-1], "as ready": range(len(sizes)),
    }[choice.order]  # fmt: skip
    first_mb = inf if choice.bucket_mb == inf else 1.0
    assignment = assign([sizes[index] for index in taken_last], *limits(choice.bucket_mb, first_mb))
    return simulate_step(
        layers, lambda bytes: all_reduce_seconds("ring", bytes, choice.ranks, _LATENCY, _RATE),
        assignment=[[taken_last[place] for place in bucket] for bucket in assignment],
    )  # fmt: skip


def _begin(choice: Choice) -> float:
    """When the backward pass begins."""
    return step(choice).compute[len(layers_of(choice))].start


# --- the picture ---

_HEIGHT = 3.25  # inches, as are all lengths below
_LEFT, _RIGHT = 1.08, WIDTH - 0.3
_ROW = 0.3
_TITLES = (0.16, 1.36)
_LAYERS, _BUCKETS, _BACKWARD, _REDUCTIONS = 0.32, 0.67, 1.52, 1.87
_AXIS = 2.32
_VERDICT = 2.74
_SHADES = (color_of("gradients"), "#FEE08A")  # of even buckets, and of odd ones
_NAMES = {"layers": _LAYERS, "buckets": _BUCKETS, "backward": _BACKWARD, "all-reduces": _REDUCTIONS}


def figure(choice: Choice) -> Picture:
    """Draw the parameters and their buckets, each as wide as its bytes, and when buckets are reduced."""
    drawing = Drawing()
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self) -> None:
        self.figure, axes = sheet(_HEIGHT)
        for text, height in zip(("the parameters as they are registered, each as wide as its bytes",
                                 "one backward pass, computed"), _TITLES, strict=True):  # fmt: skip
            axes.text(_LEFT, height, text, va="center", fontsize=FONT)
        for name, top in _NAMES.items():
            axes.text(_LEFT - 0.1, top + _ROW / 2, name, ha="right", va="center", fontsize=FONT)
        self._bars, self._axis = Bars(axes), TimeAxis(axes, _LEFT, _RIGHT, _AXIS)
        self._end = axes.plot([], [], color="black", linewidth=1, linestyle="--")[0]
        self._verdict = axes.text(_LEFT, _VERDICT, "", va="center", fontsize=FONT)
        self.changing = layer_on_top([*self._bars.changing, self._end, *self._axis.changing, self._verdict])
        _draw_key(axes)

    def show(self, choice: Choice) -> None:
        done = step(choice)
        begin = _begin(choice)
        scale = self._axis.show(done.communication_end - begin)
        self._bars.show([*_layer_bars(choice), *_bucket_bars(choice), *_time_bars(choice, begin, scale)])
        end = _LEFT + scale * (done.backward_end - begin)
        self._end.set_data([end, end], [_BACKWARD - 0.06, _AXIS])
        self._verdict.set_text(_verdict(done))
        self.figure.description = description(choice)


def _layer_bars(choice: Choice) -> Iterator[Bar]:
    names = [layer.name for layer in layers_of(choice)]
    owner = owners(choice)
    for index, left, width in _runs(choice, key=lambda parameter: owner[parameter]):
        yield Bar(left, width, _LAYERS, _ROW, "#E6E6E6", _short(names[index], width))


def _bucket_bars(choice: Choice) -> Iterator[Bar]:
    bucket_of = {parameter: index for index, bucket in enumerate(step(choice).buckets)
                 for parameter in bucket.parameters}  # fmt: skip
    for bucket, left, width in _runs(choice, key=bucket_of.__getitem__):
        yield Bar(left, width, _BUCKETS, _ROW, _SHADES[bucket % 2], f"{bucket}")


def _runs(choice: Choice, key) -> Iterator[tuple[int, float, float]]:
    """Neighbors with the same ``key`` as one: the key, where they begin, and how wide they are."""
    sizes = [size for layer in layers_of(choice) for size in layer.parameter_bytes]
    scale, left = (_RIGHT - _LEFT) / sum(sizes), _LEFT
    for value, run in groupby(registered(choice), key):
        width = scale * sum(sizes[parameter] for parameter in run)
        yield value, left, width
        left += width


def _time_bars(choice: Choice, begin: float, scale: float) -> Iterator[Bar]:
    done = step(choice)
    for event in done.compute[len(layers_of(choice)) :]:
        width = scale * (event.end - event.start)
        name = _short(event.label.removeprefix("backward "), width)
        yield Bar(_LEFT + scale * (event.start - begin), width, _BACKWARD, _ROW, color_of("compute"), name)
    for index, bucket in enumerate(done.buckets):
        yield Bar(_LEFT + scale * (bucket.start - begin), scale * (bucket.end - bucket.start), _REDUCTIONS,
                  _ROW, color_of("communication"), f"{index}")  # fmt: skip


def _short(name: str, width: float) -> str:
    """``layer 3`` is 3 where there is no room for more."""
    return name if text_width(name) + 0.1 < width else name.removeprefix("layer ")


def _draw_key(axes) -> None:
    looks = {"a layer": "#E6E6E6", "a bucket of gradients": _SHADES[0], "the next one": _SHADES[1],
             "backward": color_of("compute"), "all-reduce": color_of("communication")}  # fmt: skip
    handles = [Patch(facecolor=color, label=name) for name, color in looks.items()]
    axes.legend(handles=handles, loc="lower left", ncols=len(handles), frameon=False, fontsize=FONT,
                borderaxespad=0.3, columnspacing=1.4, handlelength=1.5, handletextpad=0.6)  # fmt: skip


def _verdict(done: Step) -> str:
    calls = len(done.buckets)
    return (f"{calls} all-reduce{'s' * (calls > 1)}; {duration(done.exposed_seconds)} of "
            f"{duration(_communication(done))} after backward's end, the dashed line")  # fmt: skip


def _communication(done: Step) -> float:
    return done.exposed_seconds + done.hidden_seconds


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"A GPT of {choice.layers} layers as a row of its parameters, and below it their "
        f"{len(step(choice).buckets)} buckets, filled in the order {choice.order!r}; then one backward pass "
        "over time, and below it the all-reduce of each bucket."
    )


# --- the numbers beside it ---

_SHOWN = 6  # buckets, at most


def readout(choice: Choice) -> Readout:
    """The picture in numbers: a row for each bucket, or for the first ones and the last."""
    done = step(choice)
    begin = _begin(choice)
    rows = [(f"bucket {index}", _holds(choice, bucket.parameters), size(bucket.bytes),
             *(duration(moment - begin) for moment in (bucket.ready, bucket.start, bucket.end)))
            for index, bucket in enumerate(done.buckets)]  # fmt: skip
    if len(rows) > _SHOWN:
        rows = [*rows[: _SHOWN - 2], ("…", *5 * [""]), rows[-1]]
    return Readout([("", "holds", "bytes", "ready", "starts", "ends"), *rows], _notes(choice, done))


def _holds(choice: Choice, parameters: Sequence[int]) -> str:
    names, owner = [layer.name for layer in layers_of(choice)], owners(choice)
    first, last = names[owner[parameters[0]]], names[owner[parameters[-1]]]
    return first if first == last else f"{first} … {last}"


def _notes(choice: Choice, done: Step) -> list[str]:
    total, tensors = sum(bucket.bytes for bucket in done.buckets), terms("ring", choice.ranks).tensors
    calls = "1 call" if len(done.buckets) == 1 else f"{len(done.buckets):,} calls"
    return [
        f"Times since the backward pass began; it ends at {duration(done.backward_end - _begin(choice))}. "
        f"{duration(done.exposed_seconds)} of {duration(_communication(done))} of communication come after "
        "it and are exposed.",
        f"{size(total)} of gradients in {calls}; the ring sends {tensors:.4g} times that "
        f"from each of {choice.ranks:,} ranks, however the buckets are filled.",
        f"Computed, not measured: GPT-2 small with {choice.layers} layers, tied embedding, {_SEQUENCES} "
        f"sequences of {_SEQUENCE:,} tokens on each rank at {_FLOPS / 1e12:g} TFLOP/s; gradients in fp32; "
        f"links of {rate_text(_RATE)}, {_LATENCY * 1e6:g} µs a message. Left out: {'; '.join(LEFT_OUT)}.",
    ]


# --- the sliders ---


def explorer(start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget."""
    stops: dict[str, dict[Any, str]] = {
        "bucket_mb": {mb: _bucket_text(mb) for mb in sorted({*_BUCKET_SIZES, start.bucket_mb})},
        "layers": {number: f"{number}" for number in range(1, MOST_LAYERS + 1)},
        "order": dict(zip(ORDERS, _ORDER_TEXTS, strict=True)),
        "embedding": dict(zip(PLACES, _PLACE_TEXTS, strict=True)),
        "ranks": {number: f"{number:,}" for number in sorted({*_RANKS, start.ranks})},
    }
    controls = {
        name: selection(texts, getattr(start, name), _DESCRIPTIONS[name], menu=name in ("order", "embedding"))
        for name, texts in stops.items()
    }
    return Explorer(Drawing(), controls, Choice, readout)


def _bucket_text(mebibytes: float) -> str:
    return "all in one" if mebibytes == inf else f"{mebibytes:g} MiB"


_ORDER_TEXTS = ("reverse: the last registered first", "forward: the first registered first",
                "as ready: as gradients arrived in step 1")  # fmt: skip
_PLACE_TEXTS = ("registered first, as the embedding's", "registered last, as the head's")
_BUCKET_SIZES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, inf)
_RANKS = [2**power for power in range(1, 11)]
_DESCRIPTIONS = {"bucket_mb": "bucket size", "layers": "layers", "order": "buckets are filled",
                 "embedding": "tied weight", "ranks": "ranks N"}  # fmt: skip
