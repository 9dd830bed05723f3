"""The pictures of lesson 05: noisy gradients in one dimension, what a batch costs, a noise scale over steps.

Pure functions from numbers to a figure, so that a lesson can draw what it has just computed or measured.
matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite, log10
from typing import TYPE_CHECKING

from course_lib.arguments import number, whole_number
from course_lib.noise_scale import Estimate, tradeoff
from course_lib.palette import EXAMPLES_COLOR, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course_lib.pictures import Looks, Picture

_FONT_SIZE = 9  # points
_GRAY = "#8A8A8A"
_EDGE: Looks = {"markeredgecolor": "black", "markeredgewidth": 0.8}
_GRADIENTS = color_of("gradients")
_NOISE: Looks = {"facecolor": "white", "edgecolor": _GRADIENTS, "hatch": "xxx", "linewidth": 1}
_LINE: Looks = {"color": "black", "lw": 1.2}
_BATCH: Looks = {**_LINE, "ls": "--", "marker": "*", "ms": 14}  # the learner's
_CRITICAL: Looks = {**_LINE, "ls": ":", "marker": "o", "ms": 9, "mfc": "white", "mew": 1.4}
_TRUE: Looks = {"color": _GRAY, "lw": 4, "alpha": 0.5, "zorder": 1.5}  # above areas, below all other lines


# --- one dimension ---


def one_dimension(estimates: Mapping[int, Sequence[float]], gradient: float, noise: float) -> Picture:
    """Draw gradients of batches of two sizes around the true gradient, and the means of their squares.

    ``estimates``: batch size -> gradients of many such batches, the smaller size first.  ``gradient``: the
    true one.  ``noise``: standard deviation of one sample's gradient.  Left, histograms with the normal
    curves of theory; right, bars of gradient² and noise²/B, with what the estimates give as marks.
    Raises ValueError unless there are two sizes, in this order, with estimates.
    """
    from course_lib.pictures import page_wide

    number("noise", noise)
    sizes = [whole_number("batch", size) for size in estimates]
    if len(sizes) != 2 or sizes[0] >= sizes[1] or not all(len(drawn) for drawn in estimates.values()):
        raise ValueError(f"estimates of batches {sizes}: expected those of a small and of a big one")
    drawing = page_wide(
        3.6, f"Left: gradients of batches of {sizes[0]} and of {sizes[1]} samples, spread around the true "
        "gradient, those of the small batch widely. Right: the mean of their squares is that of the true "
        "gradient, and noise on top: much for the small batch, a little for the big one.")  # fmt: skip
    left, right = drawing.subplots(1, 2, width_ratios=(1.2, 1))
    _draw_estimates(left, estimates, gradient, noise)
    _draw_squares(right, estimates, gradient, noise)
    for axes in (left, right):
        axes.spines[["top", "right", "left"]].set_visible(False)
    return drawing


def _draw_estimates(
    axes: Axes, estimates: Mapping[int, Sequence[float]], gradient: float, noise: float
) -> None:
    small, big = estimates
    reach = 3.5 * noise / small**0.5
    ends = gradient - reach, gradient + reach
    points = [ends[0] + 2 * reach * step / 300 for step in range(301)]
    looks: dict[int, Looks] = {small: _NOISE, big: {"facecolor": _GRADIENTS, "edgecolor": _GRADIENTS}}
    for size, drawn in estimates.items():
        axes.hist(drawn, bins=45, range=ends, density=True, label=f"batches of {size}", **looks[size])
        axes.plot(points, [_normal(at, gradient, noise / size**0.5) for at in points], color="black", lw=1)
    axes.axvline(gradient, color="black", lw=2, label="true gradient")
    axes.set(xlim=ends, yticks=[], xlabel="gradient (loss per unit of the weight)", ylabel="how often")
    axes.set_title("Gradients of many batches", loc="left", fontsize=10)
    axes.legend(loc="upper left", frameon=False, fontsize=_FONT_SIZE)


def _normal(at: float, mean: float, deviation: float) -> float:
    from statistics import NormalDist

    return NormalDist(mean, deviation).pdf(at)


def _draw_squares(
    axes: Axes, estimates: Mapping[int, Sequence[float]], gradient: float, noise: float
) -> None:
    rows = {f"batches of {size}": noise**2 / size for size in estimates} | {"true gradient": 0.0}
    for row, added in enumerate(rows.values()):
        axes.barh(row, gradient**2, 0.6, color=_GRADIENTS)
        axes.barh(row, added, 0.6, left=gradient**2, **_NOISE)
    squares = [sum(each**2 for each in drawn) / len(drawn) for drawn in estimates.values()]
    axes.plot(squares, range(len(squares)), "D", color="black", ms=6, label="measured")
    axes.bar(0, 0, color=_GRADIENTS, label="G²")
    axes.bar(0, 0, **_NOISE, label="noise: σ²/B")
    axes.set_yticks(range(len(rows)), list(rows), fontsize=_FONT_SIZE)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 1.1 * max(*squares, gradient**2 + max(rows.values()))), ylim=(2.5, -0.5),
             xlabel="mean of the squared gradient")  # fmt: skip
    axes.set_title("Mean squares", loc="left", fontsize=10)
    axes.legend(loc="lower right", frameon=False, fontsize=_FONT_SIZE)


# --- what a batch costs ---


def tradeoff_curves(
    critical_batch: float,
    unit: str = "samples",
    *,
    batch: float | None = None,
    measured: Sequence[tuple[float, float, float]] = (),
    noise_scale: float | None = None,
) -> Picture:
    """Draw steps and examples to a target over the batch, and against each other, relative to their minima.

    The curves are those of ``noise_scale.tradeoff``.  ``batch``: the learner's own, marked on them.
    ``measured``: points, each a batch, its steps and its examples, as TradeoffFit.relative gives them.
    ``noise_scale``: the true one, where it is known.  All batches are in ``unit``.
    Raises ValueError for numbers that are not above 0.
    """
    from course_lib.pictures import page_wide

    points = [(number("measured", batch), number("measured", steps), number("measured", examples))
              for batch, steps, examples in measured]  # fmt: skip
    named = {"critical batch": critical_batch, "batch": batch, "noise_scale": noise_scale}
    sizes = [number(name, size) for name, size in named.items() if size is not None]
    sizes += [size for size, *_ in points]
    ends = min(min(sizes) / 2, critical_batch / 64), max(2 * max(sizes), critical_batch * 64)
    curve = [ends[0] * (ends[1] / ends[0]) ** (step / 200) for step in range(201)]
    marks = " with measured points on them" if points else ""
    drawing = page_wide(
        4.1, f"Left: steps and examples to a target over the batch, in times of the least{marks}: steps "
        "fall, examples rise, and at the critical batch both are twice their least. Right: examples against "
        "steps, a hyperbola.")  # fmt: skip
    left, right = drawing.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_over_batch(left, critical_batch, curve, points)
    _draw_hyperbola(right, critical_batch, curve, points)
    _draw_batches(left, right, critical_batch, unit, batch, noise_scale)
    left.set(xlabel=f"batch ({unit})", ylabel="times the least")
    right.set(xlabel="steps (times the least)", ylabel="examples (times the least)")
    drawing.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=_FONT_SIZE)
    return drawing


def _draw_over_batch(
    axes: Axes, critical_batch: float, curve: Sequence[float], points: Sequence[tuple[float, float, float]]
) -> None:
    both = [tradeoff(size, critical_batch) for size in curve]
    names: tuple[tuple[str, Looks, str], ...] = (
        ("steps", {"color": "black"}, "o"), ("examples", {"color": EXAMPLES_COLOR}, "s"),
    )  # fmt: skip
    for which, (name, looks, mark) in enumerate(names):
        axes.plot(curve, [each[which] for each in both], lw=2.4, label=name, **looks)
        if points:
            heights = [point[1 + which] for point in points]
            axes.plot([point[0] for point in points], heights, mark, ms=7, zorder=4, **looks, **_EDGE,
                      label=f"{name}, measured")  # fmt: skip
    _times_axis(axes, "y", max(both[0][0], both[-1][1]))
    _log_axis(axes, "x", curve[0], curve[-1], _tick_text)


def _draw_hyperbola(
    axes: Axes, critical_batch: float, curve: Sequence[float], points: Sequence[tuple[float, float, float]]
) -> None:
    both = [tradeoff(size, critical_batch) for size in curve]
    axes.plot(*zip(*both, strict=True), color=_GRAY, lw=2.4)
    axes.plot([point[1] for point in points], [point[2] for point in points], "D", color=_GRAY, ms=6,
              zorder=4, **_EDGE)  # fmt: skip
    _times_axis(axes, "x", both[0][0])
    _times_axis(axes, "y", both[-1][1])


def _times_axis(axes: Axes, which: str, most: float) -> None:
    """Logarithmic, from a little below once."""
    _log_axis(axes, which, 0.9, most, lambda value: f"{_tick_text(value)}×")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E8E8E8", lw=0.6)
    axes.set_axisbelow(True)


def _log_axis(axes: Axes, which: str, least: float, most: float, text: Callable[[float], str]) -> None:
    """With about as many ticks as there is room for."""
    from matplotlib.ticker import LogLocator, NullLocator

    decades = log10(most / least)
    steps = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)
    axes.set(**{f"{which}scale": "log", f"{which}lim": (least, most)})
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=steps, numticks=6))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: text(value))


def _draw_batches(
    left: Axes, right: Axes, critical_batch: float, unit: str, batch: float | None, noise_scale: float | None
) -> None:
    """The batches that matter: lines on the left, marks on the hyperbola, both in one entry of the key."""
    if noise_scale is not None:
        left.axvline(noise_scale, **_TRUE, label=f"true noise scale: {_count_text(noise_scale)} {unit}")
    marked = [("critical batch", critical_batch, _CRITICAL)]
    marked += [("your batch", batch, _BATCH)] if batch is not None else []
    for name, size, looks in marked:
        left.axvline(size, **{**looks, "marker": ""})
        right.plot(*tradeoff(size, critical_batch), **{**looks, "ls": ""}, zorder=5, clip_on=False)
        left.plot([], [], **looks, label=f"{name}: {_count_text(size)} {unit}")


def _count_text(count: float) -> str:
    """A batch as people write it: 512, 16,384, 1.07 M; of what is not whole, three digits."""
    if count == round(count) and count < 1e6:
        return f"{count:,.0f}"
    rounded = float(f"{count:.3g}")
    return f"{rounded:,.0f}" if 1000 <= rounded < 1e6 else _tick_text(rounded)


def _tick_text(count: float) -> str:
    """As short as it goes: 10 k for 10,000."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:g} {letter}"
    return f"{count:g}"


# --- over steps ---


def scale_over_steps(
    measured: Mapping[int, tuple[Estimate, tuple[float, float]]],
    title: str,
    unit: str = "samples",
    *,
    batch: float | None = None,
    noise_scale: float | None = None,
) -> Picture:
    """Draw the noise scale while training goes on, with its interval as a band.

    ``measured``: step -> ``(meter.value(), meter.interval())``.  Where there is no scale there is a gap, and
    where an interval has no upper end the band goes to the top.  ``batch``: the learner's own, as a line.
    ``noise_scale``: the true one, where it is known.  Raises ValueError when no step has a scale above 0.
    """
    from matplotlib.ticker import AutoLocator

    from course_lib.pictures import page_wide

    scales = {step: value.scale for step, (value, _) in measured.items() if value.scale}
    if not scales:
        raise ValueError("measured has no noise scale: expected one above 0 at some step")
    drawing = page_wide(
        3.6, f"{title}: the noise scale in {unit} over steps, on a logarithmic scale, as a line in a band, "
        "its interval.")  # fmt: skip
    axes = drawing.add_subplot()
    least, most = _limits(measured, [*scales.values(), *filter(None, (batch, noise_scale))])
    bands = [_band(value, interval, least, most) for value, interval in measured.values()]
    lows, highs = zip(*bands, strict=True)
    axes.fill_between(list(measured), lows, highs, color=_GRADIENTS, alpha=0.45, lw=0, label="its interval")
    line = [scales.get(step, float("nan")) for step in measured]
    axes.plot(list(measured), line, color="black", lw=1.6, marker="o", ms=4, label="noise scale")
    if noise_scale is not None:
        axes.axhline(noise_scale, **_TRUE, label="true noise scale")
    if batch is not None:
        axes.axhline(batch, **_LINE, ls="--", label="your batch")
    axes.set(xlim=(0, 1.03 * max(measured)), xlabel="step", ylabel=f"noise scale ({unit})")
    steps = AutoLocator()
    steps.set_params(integer=True)
    axes.xaxis.set_major_locator(steps)
    _log_axis(axes, "y", least, most, _tick_text)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    drawing.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=_FONT_SIZE)
    return drawing


def _limits(
    measured: Mapping[int, tuple[Estimate, tuple[float, float]]], shown: Sequence[float]
) -> tuple[float, float]:
    """Of the axis: around all that is shown and finite."""
    ends = [end for _, interval in measured.values() for end in interval if 0 < end < inf]
    return min([*shown, *ends]) / 1.5, max([*shown, *ends]) * 1.5


def _band(value: Estimate, interval: tuple[float, float], least: float, most: float) -> tuple[float, float]:
    if value.scale is None:
        return float("nan"), float("nan")
    low, high = interval
    return max(low, least), high if isfinite(high) else most
