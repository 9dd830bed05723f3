"""The explorer of lesson 05: its numbers are the library's, and its picture shows these numbers."""

import itertools
import math
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from course_lib import measured_memory
from course_lib.activations import model_bytes
from course_lib.cost_model import all_reduce_seconds
from course_lib.explorers import batch_size
from course_lib.explorers.batch_size import Choice, Drawing, costs, readout
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.memory import model_state
from course_lib.noise_scale import critical_batch_tokens, tradeoff
from course_lib.palette import COLORS
from course_lib.transformer import CONFIGS
from tests.explorers.controls import stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels

GPT = CONFIGS["gpt-2-small"]
STATE = model_state(GPT.parameters, "mixed-adam-fp32-grads")
POINTS = [(1, 514_000_000), (4, 2_050_000_000)]
LEAST = Choice(1, 1, 1, 6.0, 50e9, 1e15)
MOST = Choice(256, 256, 32, 2.0, 12.5e6, 1e10)


def choices():
    """Any place of the sliders."""
    return st.builds(
        Choice, st.sampled_from(batch_size._COUNTS), st.sampled_from(batch_size._COUNTS),
        st.sampled_from(batch_size._SEQUENCES), st.sampled_from(batch_size._LOSSES),
        st.sampled_from(batch_size._RATES), st.sampled_from(batch_size._FLOPS),
    )  # fmt: skip


@cache
def drawing_with(points):
    return Drawing(points)


def shown(choice, points=()):
    """As ``figure`` gives it, but moved there, which is quicker; that both are the same has its own test."""
    drawing = drawing_with(tuple(points))
    drawing.show(choice)
    return drawing.figure


def panels(choice, points=()):
    """Worth, memory and time."""
    return shown(choice, points).axes


# --- the numbers ---


@settings(max_examples=50, deadline=None)
@given(choices())
def test_three_ways_lead_to_the_same_batch(choice):
    n, k, b = choice.ranks, choice.micro_batches, choice.sequences
    assert choice.effective == n * k * b and choice.tokens == 1024 * n * k * b
    once, each_time, at_once = costs(choice).values()
    assert [way.micro_batches * way.at_once for way in (once, each_time, at_once)] == 3 * [k * b]
    assert [way.all_reduces for way in (once, each_time, at_once)] == ([1, k, 1] if n > 1 else [0, 0, 0])
    assert once.activations == each_time.activations == model_bytes(GPT, b, 1024, attention="fused")
    assert at_once.activations == k * once.activations


@settings(max_examples=50, deadline=None)
@given(choices())
def test_seconds_are_those_of_the_cost_model_and_of_the_flops(choice):
    one = all_reduce_seconds("ring", 4 * GPT.parameters, choice.ranks, 0, choice.rate)
    flops = GPT.flops_per_token(1024) * 1024 * choice.micro_batches * choice.sequences
    for way in costs(choice).values():
        assert way.communication == pytest.approx(one * way.all_reduces)
        assert way.compute == pytest.approx(flops / choice.flops)
        assert way.seconds == way.compute + way.communication


@settings(max_examples=30, deadline=None)
@given(choices())
def test_steps_and_examples_are_those_of_the_tradeoff(choice):
    assert choice.tradeoff == tradeoff(choice.tokens, critical_batch_tokens(choice.loss))


def test_the_readout_says_them():
    assert readout(Choice()).text() == """\
                     one all-reduce  K all-reduces  all at once
micro-batches                     4              4            1
sequences at once                 4              4           16
activations                2.044 GB       2.044 GB     8.176 GB
with model state           4.284 GB       4.284 GB     10.42 GB
all-reduces a step                1              4            1
time of all-reduces          17.4 s       1.16 min       17.4 s
time of compute              14.1 s         14.1 s       14.1 s
time of a step               31.5 s        1.4 min       31.5 s
B_eff = N·K·b = 8 · 4 · 4 = 128 sequences of 1,024 tokens, 131,072 tokens a step.
At a loss of 3 the critical batch is 1.069 M tokens (Kaplan et al. 2020). This batch takes 9.16 times the \
least steps and 1.12 times the least examples.
Computed, not measured: gpt-2-small, 18 bytes a parameter (mixed-adam-fp32-grads), fused attention; \
1 TFLOP/s on each rank; the ring with gradients of 497.8 MB on links of 400 Mbit/s, no latency, no overlap."""


def test_one_rank_and_one_sequence_are_said_as_such():
    shown = readout(LEAST)
    rows = {name: others for name, *others in shown.rows}
    assert rows["all-reduces a step"] == ["0", "0", "0"] and rows["time of all-reduces"] == 3 * ["0 s"]
    assert shown.notes[0] == "B_eff = N·K·b = 1 · 1 · 1 = 1 sequence of 1,024 tokens, 1,024 tokens a step."


@pytest.mark.parametrize(("factor", "text"), [
    (1.0, "1 times"), (9.1566, "9.16 times"), (54_430, "54,400 times")])
def test_factors_have_three_digits(factor, text):
    assert batch_size._times(factor) == text


@pytest.mark.long
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_activations_are_those_that_are_measured_whatever_k_is(micro_batches):
    step = measured_memory.training_step(GPT, 2, 1024, batch_size.RECIPE, micro_batches=micro_batches)
    assert sum(step.activations.values()) == pytest.approx(batch_size.activations(2), rel=0.01)


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"ranks": 0}, "ranks=0: expected a positive whole number"),
    ({"ranks": 257}, "ranks=257: expected 1 to 256"),
    ({"micro_batches": 2.5}, "micro_batches=2.5: expected a positive whole number"),
    ({"micro_batches": 257}, "micro_batches=257: expected 1 to 256"),
    ({"sequences": True}, "sequences=True: expected a positive whole number"),
    ({"sequences": 33}, "sequences=33: expected 1 to 32"), ({"loss": 1.9}, "loss=1.9: expected a number, 2"),
    ({"loss": math.nan}, "loss=nan: expected a number, 2 or more, 6 at most"),
    ({"rate": 0}, "rate=0: expected a number"), ({"flops": math.inf}, "flops=inf: expected a number"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value).startswith(sentence)


# --- the picture ---


@settings(max_examples=15, deadline=None)
@given(choices())
def test_curves_are_the_tradeoff_and_marks_stand_at_the_batch(choice):
    lines = sorted(panels(choice)[0].lines, key=lambda line: line.get_zorder())
    critical, here, steps, examples, marks = lines
    for which, line in enumerate((steps, examples)):
        for x, y in line.get_xydata()[::10]:
            assert 10**y == pytest.approx(tradeoff(10**x, choice.critical)[which])
    assert 10 ** np.array(critical.get_xdata()) == pytest.approx([choice.critical] * 2)
    assert 10 ** np.array(here.get_xdata()) == pytest.approx([choice.tokens] * 2)
    assert 10 ** marks.get_xydata() == pytest.approx(np.array([[choice.tokens, y] for y in choice.tradeoff]))


@pytest.mark.parametrize("choice", [Choice(), LEAST, MOST, replace(MOST, loss=6.0), replace(LEAST, loss=2.0)])
def test_all_marks_are_on_the_picture(choice):
    worth, memory, _ = panels(choice)
    for axes in (worth, memory):
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        for line in axes.lines:
            if line.get_marker() == "o":
                assert all(left <= x <= right and low <= y <= high for x, y in line.get_xydata())


@settings(max_examples=15, deadline=None)
@given(choices())
def test_activations_stand_on_their_line(choice):
    line, measured, *marks = panels(choice)[1].lines
    ends = 10 ** line.get_xydata()
    assert ends.tolist() == [
        pytest.approx([n, model_bytes(GPT, n, 1024, attention="fused")]) for n in (1, 256 * 32)]
    places = sorted(tuple(10 ** mark.get_xydata()[0]) for mark in marks)
    expected = [costs(choice)[way] for way in ("one all-reduce", "all at once")]
    assert places == [pytest.approx((way.at_once, way.activations)) for way in expected]
    assert len(measured.get_xydata()) == 0


def test_measured_points_are_on_the_axis_of_activations():
    _, measured, *_ = panels(Choice(), POINTS)[1].lines
    assert 10 ** measured.get_xydata() == pytest.approx(np.array(POINTS))


@pytest.mark.parametrize("point", [(0, 5), (1, 0), (1.5, 5), (1, math.nan)])
def test_a_point_that_can_not_be_drawn_is_refused(point):
    with pytest.raises(ValueError, match="expected a positive whole number"):
        batch_size.figure(Choice(), [point])


@settings(max_examples=15, deadline=None)
@given(choices())
def test_bars_are_as_long_as_compute_and_communication(choice):
    axes = panels(choice)[2]
    totals, (half, end) = axes.texts[2:4], axes.texts[4:]
    number, unit = end.get_text().split()
    longest = float(number) * batch_size._UNITS[unit]
    assert half.get_text() == f"{float(number) / 2:g} {unit}"
    ways = list(costs(choice).values())[:2]
    for row, way in enumerate(ways):
        compute, communication = axes.patches[2 * row : 2 * row + 2]
        assert compute.get_x() == 0 and compute.get_width() == pytest.approx(way.compute / longest)
        assert communication.get_x() == pytest.approx(compute.get_width())
        assert communication.get_width() == pytest.approx(way.communication / longest)
    assert [text.get_text() for text in totals] == [batch_size.duration(way.seconds) for way in ways]
    assert 0.4 < max(way.seconds for way in ways) / longest <= 1


def test_colors_mean_what_they_mean_elsewhere():
    worth, memory, time = panels(Choice())
    assert to_hex(memory.lines[0].get_color()).upper() == COLORS["activations"]
    bars = [to_hex(bar.get_facecolor()).upper() for bar in time.patches]
    assert bars == 2 * [COLORS["compute"], COLORS["communication"]]
    assert not set(COLORS.values()) & {to_hex(line.get_color()).upper() for line in worth.lines}


@pytest.mark.parametrize("points", [(), POINTS])
@pytest.mark.parametrize("choice", [
    Choice(), LEAST, MOST, Choice(256, 256, 1, 3.0, 12.5e6, 1e15), Choice(192, 192, 24, 2.25, 50e6, 3e10)])
def test_texts_stay_on_the_picture_and_do_not_collide(choice, points):
    figure = shown(choice, points)
    figure.draw_without_rendering()
    worth, memory, time = figure.axes
    labels = [label for axes in (worth, memory) for axis in (axes.xaxis, axes.yaxis)
              for label in axis.get_ticklabels()]  # fmt: skip
    labels += time.get_xticklabels()
    titles = [text for axes in figure.axes for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label)]
    boxes = [text.get_window_extent() for text in [*labels, *titles, *figure.legends]
             if text in figure.legends or text.get_text()]  # fmt: skip
    page = figure.bbox
    for box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (one, other)


def test_axes_say_what_they_show():
    worth, memory, time = panels(Choice())
    assert (worth.get_xlabel(), worth.get_ylabel()) == ("batch B_eff (tokens)", "times the least")
    assert (memory.get_xlabel(), memory.get_ylabel()) == ("sequences at once on each GPU", "activations")
    assert time.get_xlabel() == "time of a step, computed"
    assert [label.get_text() for label in memory.get_yticklabels()][:2] == ["1 GB", "10 GB"]


@pytest.fixture(scope="module")
def fast():
    """One drawing that goes from choice to choice, as behind the sliders."""
    drawing = Drawing(POINTS)
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@settings(max_examples=8, deadline=None)
@given(choice=choices())
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, batch_size.figure(choice, POINTS))


@pytest.mark.parametrize("choice", [Choice(), LEAST, MOST])
def test_the_fast_picture_is_the_full_one_at_the_ends(fast, choice):
    assert_same_pixels(fast, choice, batch_size.figure(choice, POINTS))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.batch_size import Choice, figure\nfigure(Choice())"
    )


def test_the_figure_says_in_words_what_it_shows():
    data, _ = batch_size.figure(Choice(), POINTS)._repr_mimebundle_()
    assert data["text/plain"] == (
        "Above, steps and examples to a loss of 3 over the batch, in times of the least, with your batch of "
        "131,072 tokens marked. Below, activations over the sequences that a GPU takes at once, and bars for "
        "the time of a step with one all-reduce and with one for each micro-batch."
    )


# --- the sliders ---


@pytest.fixture(scope="module")
def explorer():
    return batch_size.explorer(POINTS)


@pytest.mark.parametrize("start", [Choice(5, 7, 9, 3.3, 48.7e6, 2.2e11), LEAST, MOST])
def test_it_begins_with_the_choice_it_is_given(start):
    assert batch_size.explorer(start=start).choice == start


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_stop_of_each_slider_can_be_shown(explorer, controls, name):
    for value in stops(controls[name]):
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        assert f">{batch_size.duration(costs(explorer.choice)['one all-reduce'].seconds)}<" in (
            explorer.numbers.value)
        assert f"{explorer.choice.tokens:,} tokens a step" in explorer.numbers.value


def test_sliders_go_up_and_each_stop_has_a_label_of_its_own(controls):
    for control in controls.values():
        assert stops(control) == sorted(set(stops(control)))
        labels = [label for label, _ in control.options]
        assert len(set(labels)) == len(labels)
    assert {name: (stops(control)[0], stops(control)[-1]) for name, control in controls.items()} == {
        "ranks": (1, 256), "micro_batches": (1, 256), "sequences": (1, 32), "loss": (2.0, 6.0),
        "rate": (12.5e6, 50e9), "flops": (1e10, pytest.approx(9e14))}  # fmt: skip
    assert "40% of H100 SXM" in [label for label, _ in controls["flops"].options]


def test_a_move_changes_picture_and_numbers_in_place(explorer, controls):
    before, children = explorer.picture.value, explorer.children
    controls["micro_batches"].value = 64
    assert explorer.picture.value != before and explorer.children is children
    controls["micro_batches"].value = 4
    assert explorer.picture.value == before


def test_the_text_in_a_stored_notebook_holds_nothing_measured(explorer):
    texts = [each._repr_mimebundle_()[0]["text/plain"] for each in (explorer, batch_size.explorer())]
    assert texts[0] == texts[1] == readout(Choice()).text()
