"""The pictures of lesson 01: models against cards, and how activations grow.

Pure functions from numbers to a figure, so that a lesson can draw what it has just computed or measured.
matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.arguments import number, whole_number
from course_lib.palette import color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course_lib.pictures import Picture

_FONT_SIZE = 9  # points
_CARD_COLOR = "#6E6E6E"
_MARKERS = "os^Dv"
_LINE_PIECES = 64  # enough for a curve to look like one


def wall(models: Mapping[str, int], cards: Mapping[str, int], bytes_per_parameter: float = 16) -> Picture:
    """Draw models on the line of their model state, and cards as the heights that it must stay below.

    ``models``: name -> parameters.  ``cards``: name -> bytes of memory.  Both axes are logarithmic.  A card's
    line begins at the largest model that fits it; a model that fits none of the cards has an empty mark.
    Raises ValueError when there is no model, no card, or a number that is not above 0.
    """
    number("bytes_per_parameter", bytes_per_parameter)
    _require_positive("models", models)
    _require_positive("cards", cards)
    drawing, axes = _new_figure(
        4.6,
        f"Model state in GB against parameters, both logarithmic: a straight line of {bytes_per_parameter:g} "
        f"bytes per parameter with {len(models)} models on it, and the memory of {len(cards)} cards as "
        "horizontal lines.",
    )
    gigabytes = {name: bytes_per_parameter * parameters / 1e9 for name, parameters in models.items()}
    capacity = {name: memory / 1e9 for name, memory in cards.items()}
    largest = [memory / bytes_per_parameter for memory in cards.values()]  # models that fit
    sizes = [*models.values(), *largest]
    ends = min(sizes) / 10, max(sizes) * 10  # room for names on both sides
    axes.plot(ends, [bytes_per_parameter * end / 1e9 for end in ends], color="black", lw=1.2)
    _draw_cards(axes, cards, bytes_per_parameter, ends[1])
    _draw_models(axes, models, gigabytes, max(capacity.values()))
    everything = [*gigabytes.values(), *capacity.values()]
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(min(everything) / 3, max(everything) * 3))
    axes.xaxis.set_major_formatter(lambda value, _: _count_text(value))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set(xlabel="parameters", ylabel="model state (GB)")
    axes.set_title(f"{bytes_per_parameter:g} bytes for each parameter", loc="left", fontsize=10)
    axes.legend(loc="lower right", frameon=False, fontsize=_FONT_SIZE)
    return drawing


def activation_growth(
    sequences: Sequence[int],
    formula: Mapping[str, Callable[[int], float]],
    measured: Mapping[str, Sequence[int]],
) -> Picture:
    """Draw bytes of activations over the sequence length: the formula as lines, measurements as points.

    For the same labels, ``formula`` gives the bytes at any sequence length, and ``measured`` holds them for
    each of ``sequences``.  Raises ValueError when labels or numbers of lengths do not agree, and for lengths
    that are not above 0.
    """
    lengths = [whole_number("sequences", sequence) for sequence in sequences]
    if formula.keys() != measured.keys():
        raise ValueError(f"measured={list(measured)}: expected the labels of formula, {list(formula)}")
    for label in measured:
        if len(measured[label]) != len(lengths):
            raise ValueError(f"{label!r}: expected one number for each of {len(sequences)} sequence lengths")
    drawing, axes = _new_figure(
        3.6,
        f"Activations in GB over the sequence length, for {', '.join(formula)}: points measured, lines by "
        "the formula.",
    )
    color = color_of("activations")
    between = range(min(lengths), max(lengths), max(1, max(lengths) // _LINE_PIECES))
    along = sorted({*between, *lengths})
    for (label, bytes_at), marker in zip(formula.items(), _MARKERS, strict=False):
        axes.plot(along, [bytes_at(length) / 1e9 for length in along], color=color, lw=1.2)
        points = [each / 1e9 for each in measured[label]]
        axes.plot(lengths, points, marker, color=color, markeredgecolor="black", ms=7, clip_on=False)
        axes.annotate(label, (lengths[-1], points[-1]), xytext=(8, 0), textcoords="offset points",
                      va="center", fontsize=_FONT_SIZE)  # fmt: skip
    axes.set(xlim=(0, max(lengths) * 1.3), xlabel="sequence length (tokens)", ylabel="activations (GB)")
    axes.set_ylim(0, None)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_title("Activations: points measured, lines by the formula", loc="left", fontsize=10)
    return drawing


def _new_figure(height: float, description: str) -> tuple[Picture, Axes]:
    from course_lib.pictures import page_wide

    drawing = page_wide(height, description)
    axes = drawing.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return drawing, axes


def _draw_cards(axes: Axes, cards: Mapping[str, int], bytes_per_parameter: float, right: float) -> None:
    """Lines to the right of the models' line, since the models' names stand to the left of it."""
    for name, memory in cards.items():
        gigabytes = memory / 1e9
        axes.plot([memory / bytes_per_parameter, right], 2 * [gigabytes], color=_CARD_COLOR, lw=0.8, ls="--")
        axes.annotate(f"{name}: {gigabytes:.0f} GB", (right, gigabytes), xytext=(0, 1),
                      textcoords="offset points", ha="right", va="bottom", color=_CARD_COLOR,
                      fontsize=_FONT_SIZE)  # fmt: skip


def _draw_models(
    axes: Axes, models: Mapping[str, int], gigabytes: Mapping[str, float], largest_card: float
) -> None:
    """Names stand to the left of the line, above it, where no other model and no card can be."""
    for fits, label in ((True, "fits the largest card"), (False, "fits none of these cards")):
        names = [name for name in models if (gigabytes[name] <= largest_card) == fits]
        axes.plot([models[name] for name in names], [gigabytes[name] for name in names], "o", color="black",
                  markerfacecolor="black" if fits else "white", ms=8, zorder=3, label=label)  # fmt: skip
    for name, parameters in models.items():
        axes.annotate(f"{name}: {gigabytes[name]:,.0f} GB", (parameters, gigabytes[name]), xytext=(-10, 3),
                      textcoords="offset points", ha="right", va="bottom", fontsize=_FONT_SIZE)  # fmt: skip


def _count_text(count: float) -> str:
    """``10B`` for 10^10: parameters as people name them."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if count >= size:
            return f"{count / size:,g}{letter}"
    return f"{count:,g}"


def _require_positive(what: str, numbers: Mapping[str, float]) -> None:
    if not numbers:
        raise ValueError(f"{what}={{}}: expected at least one")
    for name, value in numbers.items():
        number(f"{what}[{name!r}]", value)
