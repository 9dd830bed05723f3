"""The pictures of lesson 05 show the numbers that they were given, and their words do not collide."""

import math
import re
import subprocess
import sys
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from course_lib import noise_pictures
from course_lib.noise_scale import Estimate, TradeoffFit, critical_batch_tokens, tradeoff
from course_lib.palette import COLORS

DRAWN = {size: 1 + 6 / size**0.5 * np.random.default_rng(size).normal(size=2000) for size in (16, 256)}
MEASURED = [TradeoffFit(30.0, 6000.0).relative(batch, 30 + 6000 / batch) for batch in (6, 25, 100, 400, 1600)]
UNKNOWN = Estimate(-1.0, 2.0, None, "hidden")
OVER_STEPS = {
    10: (Estimate(1.0, 100.0, 100.0), (80.0, 130.0)),
    20: (Estimate(0.5, 100.0, 200.0), (150.0, math.inf)),
    30: (UNKNOWN, (0.0, math.inf)),
    40: (Estimate(0.4, 100.0, 250.0), (0.0, 900.0)),
}
FIGURES = {
    "one dimension": lambda: noise_pictures.one_dimension(DRAWN, 1.0, 6.0),
    "far away": lambda: noise_pictures.one_dimension({1: [9.0], 10_000: [5.0, 5.1]}, 5.0, 30.0),
    "samples": lambda: noise_pictures.tradeoff_curves(210.5, batch=512, measured=MEASURED, noise_scale=200),
    "tokens": lambda: noise_pictures.tradeoff_curves(critical_batch_tokens(3.0), "tokens", batch=16_384),
    "far apart": lambda: noise_pictures.tradeoff_curves(critical_batch_tokens(2.0), "tokens", batch=512),
    "far apart too": lambda: noise_pictures.tradeoff_curves(20, batch=10**6),
    "over steps": lambda: noise_pictures.scale_over_steps(OVER_STEPS, "Small GPT, measured here", batch=32),
    "one step": lambda: noise_pictures.scale_over_steps(
        {1: OVER_STEPS[10]}, "Here", "sequences", noise_scale=90),
}  # fmt: skip


@cache
def figure_of(name):
    """Drawn once; tests only look at it."""
    figure = FIGURES[name]()
    FigureCanvasAgg(figure).draw()
    return figure


def lines(axes):
    return {line.get_label(): np.column_stack(line.get_data()) for line in axes.lines}


# --- one dimension ---


def test_bars_are_the_squared_gradient_and_the_noise_on_top():
    _, right = figure_of("one dimension").axes
    ends = [(bar.get_x(), bar.get_width()) for bar in right.patches if bar.get_height() == pytest.approx(0.6)]
    noise = [(1, 36 / 16), (1, 36 / 256), (1, 0)]
    assert [end for pair in zip([(0, 1)] * 3, noise, strict=True) for end in pair] == [
        pytest.approx(end) for end in ends]  # fmt: skip
    marks = lines(right)["measured"]
    assert marks[:, 0] == pytest.approx([np.mean(each**2) for each in DRAWN.values()])
    assert marks[0, 0] > marks[1, 0] > 1


def test_histograms_are_of_the_estimates_around_the_true_gradient():
    left, _ = figure_of("one dimension").axes
    bars = [bar for bar in left.patches if bar.get_height() > 0]
    area = sum(bar.get_width() * bar.get_height() for bar in bars)
    assert area == pytest.approx(2)  # two densities
    assert lines(left)["true gradient"][0, 0] == 1
    assert left.get_xlim()[0] < min(DRAWN[256]) and max(DRAWN[256]) < left.get_xlim()[1]


@pytest.mark.parametrize("estimates", [
    {}, {4: [1.0]}, {8: [1.0], 4: [1.0]}, {4: [], 8: [1.0]}, {4: [1.0], 8: [1.0], 16: [1.0]}])
def test_one_small_and_one_big_batch_are_needed(estimates):
    with pytest.raises(ValueError, match="expected those of a small and of a big one"):
        noise_pictures.one_dimension(estimates, 1.0, 6.0)


def test_noise_is_above_0():
    with pytest.raises(ValueError, match="noise=0: expected a number above 0"):
        noise_pictures.one_dimension(DRAWN, 1.0, 0)


# --- what a batch costs ---


def test_curves_are_those_of_the_tradeoff_and_cross_at_the_critical_batch():
    left, right = figure_of("samples").axes
    shown = lines(left)
    for which, name in enumerate(("steps", "examples")):
        for batch, height in shown[name]:
            assert height == pytest.approx(tradeoff(batch, 210.5)[which])
    assert shown["steps"][0, 0] <= 210.5 / 64 and shown["steps"][-1, 0] >= 210.5 * 64
    curve = right.lines[0].get_xydata()
    assert (curve[:, 0] - 1) * (curve[:, 1] - 1) == pytest.approx(np.ones(len(curve)))


def test_measured_points_are_drawn_where_they_are_also_off_the_curve():
    off = [(50.0, 9.0, 1.5), (800.0, 1.4, 5.0)]
    left, right = noise_pictures.tradeoff_curves(210.5, measured=off).axes
    assert lines(left)["steps, measured"].tolist() == [[50, 9], [800, 1.4]]
    assert lines(left)["examples, measured"].tolist() == [[50, 1.5], [800, 5]]
    assert [[9, 1.5], [1.4, 5]] in [line.get_xydata().tolist() for line in right.lines]


def test_the_batches_that_matter_are_marked_on_both_sides_and_named():
    figure = figure_of("samples")
    left, right = figure.axes
    marks = [tuple(line.get_xydata()[0]) for line in right.lines if len(line.get_xydata()) == 1]
    assert marks == [pytest.approx((2, 2)), pytest.approx(tradeoff(512, 210.5))]
    upright = {line.get_xdata()[0] for line in left.lines if len(set(line.get_xdata())) == 1}
    assert upright == {200, 210.5, 512}
    (key,) = figure.legends
    assert {text.get_text() for text in key.get_texts()} >= {
        "critical batch: 210 samples", "your batch: 512 samples", "true noise scale: 200 samples"}


def test_a_batch_far_away_is_on_the_picture():
    left, right = figure_of("far apart").axes
    assert left.get_xlim()[0] < 512 and right.get_xlim()[1] > tradeoff(512, critical_batch_tokens(2.0))[0]


@pytest.mark.parametrize(("arguments", "name"), [
    ({"critical_batch": 0}, "critical batch=0"), ({"batch": -1}, "batch=-1"),
    ({"noise_scale": math.nan}, "noise_scale=nan"), ({"measured": [(1, 2, 0)]}, "measured=0")])
def test_numbers_of_curves_are_above_0(arguments, name):
    with pytest.raises(ValueError, match=f"{name}: expected a number above 0"):
        noise_pictures.tradeoff_curves(**{"critical_batch": 210.5, **arguments})


@pytest.mark.parametrize(("count", "text"), [
    (512, "512"), (16_384, "16,384"), (1_069_114.0, "1.07 M"), (210.53, "211"), (0.3333, "0.333"),
    (1234.5, "1,230"), (999_999.6, "1 M"), (2.5e9, "2.5 B"), (1e12, "1 T")])
def test_batches_are_written_as_people_write_them(count, text):
    assert noise_pictures._count_text(count) == text


# --- over steps ---


def test_scales_are_drawn_over_steps_with_a_gap_where_there_is_none():
    (axes,) = figure_of("over steps").axes
    line = lines(axes)["noise scale"]
    assert line[:, 0].tolist() == [10, 20, 30, 40]
    assert line[[0, 1, 3], 1].tolist() == [100, 200, 250] and math.isnan(line[2, 1])
    assert {line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1} == {32}


def test_what_is_measured_lies_over_the_truth_and_this_over_the_band():
    (axes,) = figure_of("one step").axes
    heights = {line.get_label(): line.get_zorder() for line in axes.lines}
    assert axes.collections[0].get_zorder() < heights["true noise scale"] < heights["noise scale"]


def test_a_band_without_an_end_reaches_the_edge_of_the_picture():
    (axes,) = figure_of("over steps").axes
    least, most = axes.get_ylim()
    assert least < 32 and most > 900
    corners = np.concatenate([path.vertices for path in axes.collections[0].get_paths()])
    ends = {step: sorted(set(corners[corners[:, 0] == step, 1])) for step in (10, 20, 40)}
    assert [ends[step][0] for step in (10, 20, 40)] == pytest.approx([80, 150, least])
    assert [ends[step][-1] for step in (10, 20, 40)] == pytest.approx([130, most, 900])
    assert 30 not in corners[:, 0]


def test_steps_without_any_scale_are_refused():
    for measured in ({}, {10: OVER_STEPS[30]}, {10: (Estimate(1.0, 0.0, 0.0), (0.0, 0.0))}):
        with pytest.raises(ValueError, match="measured has no noise scale"):
            noise_pictures.scale_over_steps(measured, "Here")


# --- all of them ---


def test_gradients_have_their_color_and_examples_none_of_another_thing():
    left, right = figure_of("one dimension").axes
    assert to_hex(right.patches[0].get_facecolor()).upper() == COLORS["gradients"]
    (axes,) = figure_of("over steps").axes
    assert to_hex(axes.collections[0].get_facecolor()[0]).upper() == COLORS["gradients"]
    left, _ = figure_of("samples").axes
    examples = next(line for line in left.lines if line.get_label() == "examples")
    assert to_hex(examples.get_color()).upper() not in COLORS.values()


@pytest.mark.parametrize("name", FIGURES)
def test_words_do_not_collide_and_stay_inside(name):
    figure = figure_of(name)
    canvas = figure.canvas
    ticks = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
             for tick in axis.get_major_ticks() for label in (tick.label1,)
             if not axis.get_view_interval()[0] <= tick.get_loc() <= axis.get_view_interval()[1]}  # fmt: skip
    shown = [text for text in figure.findobj(Text)
             if text.get_text().strip() and text.get_visible() and text not in ticks]  # fmt: skip
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in shown]
    assert [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)] == []
    width, height = canvas.get_width_height()
    for text, box in boxes:
        assert 0 <= box.x0 and box.x1 <= width and 0 <= box.y0 and box.y1 <= height, text


@pytest.mark.parametrize("name", FIGURES)
def test_each_axis_says_what_it_shows_and_there_are_ticks_to_read_it_by(name):
    figure = figure_of(name)
    for axes in figure.axes:
        assert axes.get_xlabel()
        low, high = axes.get_xlim()
        assert sum(low <= place <= high for place in axes.get_xticks()) >= 2
        assert axes.get_ylabel() or [label.get_text() for label in axes.get_yticklabels()]


@pytest.mark.parametrize("name", FIGURES)
def test_descriptions_hold_no_measured_number(name):
    """They are the text that a stored notebook is compared by."""
    numbers = re.findall(r"\d+(?:\.\d+)?", figure_of(name).description)
    assert set(numbers) <= {"16", "256", "1", "10000"}


def test_the_module_is_quick_to_import():
    code = "import sys, course_lib.noise_pictures; print({'matplotlib', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
