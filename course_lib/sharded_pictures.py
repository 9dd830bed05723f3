"""A picture of lesson 08: what each rank holds when the optimizer's state is divided over the ranks.

matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from course_lib.arguments import whole_number
from course_lib.memory import ModelState, model_state
from course_lib.palette import color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course_lib.pictures import Looks, Picture

_FONT_SIZE = 9  # points
_BAR_WIDTH = 0.6
_PIECES: dict[str, tuple[str, Looks]] = {  # as lesson 01 draws them
    "weights": ("weights", {"color": color_of("weights")}),
    "gradients": ("gradients", {"color": color_of("gradients")}),
    "master": ("fp32 master weights",
               {"facecolor": color_of("weights"), "hatch": "////", "edgecolor": "white", "linewidth": 0}),
    "optimizer": ("optimizer state", {"color": color_of("optimizer state")}),
}  # fmt: skip


def state_on_each_rank(
    measured: Mapping[int, ModelState], parameters: int, also: Iterable[int] = (8, 64)
) -> Picture:
    """Draw bytes per parameter on a rank over the number of ranks: measured as bars, the formula as marks.

    ``measured``: ranks -> what rank 0 holds, by the recipe "mixed-adam" and ZeRO's stage 1.  ``also``:
    numbers of ranks for which there is a mark only.  Raises ValueError where nothing was measured, and for
    numbers that are no numbers of ranks or parameters.
    """
    from matplotlib.ticker import MultipleLocator

    from course_lib.pictures import page_wide

    whole_number("parameters", parameters)
    if not measured:
        raise ValueError(f"measured={measured!r}: expected at least one number of ranks")
    counts = sorted({whole_number("ranks", ranks) for ranks in (*measured, *also)})
    drawing = page_wide(
        3.4, "Bytes per parameter that each rank holds, against the number of ranks. Weights and gradients "
        "stay the same on every rank; master weights and optimizer state become fewer. Bars measured on "
        f"{', '.join(map(str, sorted(measured)))} ranks, and marks by the formula.")  # fmt: skip
    axes = drawing.add_subplot()
    places = {ranks: place for place, ranks in enumerate(counts)}
    _draw_bars(axes, {places[ranks]: state for ranks, state in measured.items()}, parameters)
    _draw_formula(axes, places, parameters)
    axes.set_xticks(range(len(counts)), [f"{ranks}" for ranks in counts])
    axes.set(xlim=(-0.6, len(counts) - 0.4), xlabel="ranks N", ylabel="bytes per parameter on a rank")
    axes.set_ylim(0, 1.15 * max(16, *(state.total / parameters for state in measured.values())))
    axes.yaxis.set_major_locator(MultipleLocator(4))
    axes.axhline(4, color="black", ls=":", lw=1, zorder=0)  # what no number of ranks makes less
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=_FONT_SIZE, reverse=True)
    return drawing


def _draw_bars(axes: Axes, measured: Mapping[int, ModelState], parameters: int) -> None:
    bottoms = dict.fromkeys(measured, 0.0)
    for piece, (label, look) in _PIECES.items():
        heights = {place: getattr(state, piece) / parameters for place, state in measured.items()}
        axes.bar(list(heights), list(heights.values()), _BAR_WIDTH, bottom=list(bottoms.values()),
                 label=f"{label}, measured", **look)  # fmt: skip
        bottoms = {place: bottoms[place] + height for place, height in heights.items()}


def _draw_formula(axes: Axes, places: Mapping[int, int], parameters: int) -> None:
    totals = {
        ranks: model_state(parameters, "mixed-adam", zero_stage=1, ranks=ranks).total / parameters
        for ranks in places
    }
    axes.plot(list(places.values()), list(totals.values()), "o", color="white", markeredgecolor="black", ms=8,
              clip_on=False, label="formula: 4 + 12/N")  # fmt: skip
    for ranks, total in totals.items():
        axes.annotate(f"{total:.4g}", (places[ranks], total), xytext=(0, 7), textcoords="offset points",
                      ha="center", va="bottom", fontsize=_FONT_SIZE)  # fmt: skip
