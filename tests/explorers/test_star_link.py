"""The explorer of lesson 02: its numbers are the cost model's, and its picture shows these numbers."""

import itertools
import math
from dataclasses import asdict, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import cost_model
from course_lib.explorers import star_link
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.star_link import Choice, Drawing, carried, readout
from course_lib.palette import COLORS
from course_lib.transformer import CONFIGS
from tests.explorers.controls import controls_of, stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels

TENSOR, RATE = 8 << 20, 50e6
POINTS = [
    *((n, 2 * (n - 1) * TENSOR / RATE * 1.006, "s", "root, 8 MiB on 400 Mbit/s links, measured here")
      for n in (2, 4, 8)),
    *((n, 2 * (n - 1) * TENSOR, "B", "root, 8 MiB, counted") for n in (2, 3, 4, 5, 8)),
    *((n, 2 * TENSOR, "B", "another rank, 8 MiB, counted") for n in (2, 3, 4, 5, 8)),
]  # fmt: skip
SMALLEST = Choice(2, 1, 50e9)
LARGEST = Choice(1024, 2 * CONFIGS["gpt-3-175b"].parameters, 12.5e6)


@st.composite
def choices(draw):
    """Any place of the sliders."""
    one = lambda values: draw(st.sampled_from(values))  # noqa: E731
    return Choice(one(star_link._RANKS), one(star_link._TENSORS), one(star_link._RATES))


def artists(choice, points=()):
    """The axes of a figure, and its lines by color and marker: root, other, chosen; then the points."""
    (axes,) = star_link.figure(choice, points).axes
    root, other, chosen, *measured = axes.lines
    return axes, root, other, chosen, measured


def ends(choice):
    """Ranks and bytes at the ends of the axes, from their largest texts."""
    found = star_link._Ends.of(choice)
    return found.ranks, found.bytes


# --- the numbers ---


@settings(max_examples=30, deadline=None)
@given(choices())
def test_bytes_and_seconds_are_the_cost_models(choice):
    root, other = carried(choice.bytes, choice.ranks)
    traffic = cost_model.traffic("star", choice.bytes, choice.ranks, element_bytes=1)
    assert [root.received, other.received] == list(traffic.received[:2])
    assert [root.sent, other.sent] == list(traffic.sent[:2])
    assert root.total == max(map(sum, zip(traffic.sent, traffic.received, strict=True)))
    assert all(sent == other.sent for sent in traffic.sent[1:])
    seconds = cost_model.all_reduce_seconds("star", choice.bytes, choice.ranks, 0, choice.rate)
    assert root.total / choice.rate == pytest.approx(seconds)


def test_the_readout_says_them():
    assert readout(Choice(4, TENSOR, RATE)).text() == """\
               the root's link  another rank's link
comes in              25.17 MB             8.389 MB
goes out              25.17 MB             8.389 MB
together              50.33 MB             16.78 MB
in bytes            50,331,648           16,777,216
at 400 Mbit/s           1.01 s               336 ms
4 ranks, each with a tensor of 8 MiB; links of 400 Mbit/s = 50 MB/s in each direction. MB = 10⁶ bytes, \
MiB = 2²⁰.
The root's link carries 3 times what another rank's does. The times are those of the bytes alone, first in, \
then out: no latency, and nothing for adding up."""


def test_gradients_of_a_known_model_are_named():
    notes = readout(Choice(8, 2 * CONFIGS["gpt-2-small"].parameters, 12.5e9)).notes
    assert "each with a tensor of 248.9 MB, the gradients of gpt-2-small in bf16; links" in notes[0]


@pytest.mark.parametrize("seconds, text", [
    (2e-7, "0.2 µs"), (0.001, "1 ms"), (0.33554, "336 ms"), (1.0, "1 s"), (59.9, "59.9 s"), (90, "1.5 min"),
    (7200, "2 h"), (4e6, "46.3 days"),
])  # fmt: skip
def test_durations_have_three_digits(seconds, text):
    assert star_link.duration(seconds) == text


@pytest.mark.parametrize("number, text", [
    (1, "1 B"), (1023, "1.023 kB"), (1024, "1 KiB"), (8 << 20, "8 MiB"), (1 << 30, "1 GiB"),
    (3 << 20, "3 MiB"), (13_476_831_232, "13.48 GB"), (341_023_944 << 10, "349.2 GB"),
])  # fmt: skip
def test_tensors_are_named_in_the_units_in_which_they_are_whole(number, text):
    assert star_link.bytes_text(number) == text


@pytest.mark.parametrize("rate, text", [(12.5e6, "100 Mbit/s"), (125e6, "1 Gbit/s"), (50e9, "400 Gbit/s")])
def test_rates_are_in_bits_as_they_are_sold(rate, text):
    assert star_link.rate_text(rate) == text


@pytest.mark.parametrize("wrong, sentence", [
    ({"ranks": 1}, "ranks=1: expected 2 to 1024"),
    ({"ranks": 1025}, "ranks=1025: expected 2 to 1024"),
    ({"ranks": 2.5}, "ranks=2.5: expected a positive whole number"),
    ({"bytes": 0}, "bytes=0: expected a positive whole number"),
    ({"rate": 0}, "rate=0: expected bytes/s above 0"),
    ({"rate": math.nan}, "rate=nan: expected bytes/s above 0"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value) == sentence


# --- the picture ---


@settings(max_examples=15, deadline=None)
@given(choices())
def test_the_roots_line_rises_straight_and_the_others_is_level(choice):
    _, root, other, chosen, _ = artists(choice)
    last, most = ends(choice)
    assert choice.ranks <= last
    for line, rank in ((root, 0), (other, 1)):
        assert line.get_xdata() * np.array(last) == pytest.approx([2, last])
        heights = [carried(choice.bytes, ranks)[rank].total for ranks in (2, last)]
        assert line.get_ydata() * np.array(most) == pytest.approx(heights)
        middle = carried(choice.bytes, choice.ranks)[rank].total / most
        assert np.interp(choice.ranks / last, line.get_xdata(), line.get_ydata()) == pytest.approx(middle)
        assert (choice.ranks / last, pytest.approx(middle)) in [tuple(place) for place in chosen.get_xydata()]


@settings(max_examples=15, deadline=None)
@given(choices())
def test_the_axes_say_where_they_end(choice):
    axes, *_ = artists(choice)
    last, most = ends(choice)
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts[1.0, -0.03] == f"{last:,}" and texts[0.25, -0.03] == f"{last // 4:,}"
    assert texts[-0.015, 1.0] == star_link.size(most)
    assert texts[1.015, 1.0] == star_link.duration(most / choice.rate)
    assert texts[1.015, 0.5] == star_link.duration(most / choice.rate / 2)
    assert 0.6 <= carried(choice.bytes, last)[0].total / most <= 1


def test_counted_bytes_lie_on_the_lines_and_times_near_them_where_the_sliders_stand_as_they_were_measured():
    _, root, other, _, (timed, counted, of_other) = artists(Choice(4, TENSOR, RATE), POINTS)
    for marks, line, ratio in ((timed, root, 1.006), (counted, root, 1), (of_other, other, 1)):
        on_line = np.interp(marks.get_xdata(), line.get_xdata(), line.get_ydata())
        assert marks.get_ydata() / on_line == pytest.approx(ratio)
    assert list(timed.get_xdata()) == [n / 8 for n in (2, 4, 8)]


def test_points_stand_at_their_own_bytes_and_seconds_wherever_the_sliders_are():
    choice = Choice(16, 4 * TENSOR, RATE / 4)
    _, _, _, _, (timed, counted, _) = artists(choice, POINTS)
    last, most = ends(choice)
    expected = [value for _, value, _, label in POINTS if label == "root, 8 MiB, counted"]
    assert counted.get_ydata() * np.array(most) == pytest.approx(expected)
    seconds = timed.get_ydata() * np.array(most / choice.rate)
    assert seconds == pytest.approx([value for _, value, unit, _ in POINTS if unit == "s"])
    assert timed.get_xdata() * np.array(last) == pytest.approx([2, 4, 8])


def test_points_beyond_the_axes_are_left_out_and_that_is_said():
    choice = Choice(4, TENSOR // 2, RATE)
    _, _, _, _, (timed, counted, of_other) = artists(choice, POINTS)
    assert [len(marks.get_xdata()) for marks in (timed, counted, of_other)] == [2, 4, 5]
    note = "Measured points beyond the picture's edges are not shown."
    assert readout(choice, POINTS).notes[-1] == note
    assert note not in readout(choice).notes


def test_each_label_has_its_mark_in_the_key():
    figure = star_link.figure(Choice(), POINTS)
    lines, points = figure.legends
    assert [text.get_text() for text in lines.get_texts()] == [
        "the root's link", "another rank's link", "both at the chosen N"
    ]  # fmt: skip
    assert [text.get_text() for text in points.get_texts()] == list(dict.fromkeys(p[3] for p in POINTS))
    markers = [handle.get_marker() for handle in points.legend_handles]
    assert markers == [line.get_marker() for line in artists(Choice(), POINTS)[-1]]
    assert len(set(markers)) == 3


@pytest.mark.parametrize("points, sentence", [
    ([(4, 1.0, "MB", "x")], "unit='MB': expected one of 'B', 's'"),
    ([(1, 1.0, "B", "x")], "point (1, 1.0, 'B', 'x'): expected 2 ranks or more, and a value above 0"),
    ([(4, math.nan, "s", "x")], "point (4, nan, 's', 'x'): expected 2 ranks or more, and a value above 0"),
    ([(4, 1.0, "s", f"{n}") for n in range(5)], "points with 5 labels: expected at most 4"),
])  # fmt: skip
def test_points_that_can_not_be_drawn_are_refused(points, sentence):
    with pytest.raises(ValueError) as caught:
        star_link.figure(Choice(), points)
    assert str(caught.value) == sentence


def test_the_lines_have_the_palettes_color_and_differ_in_more_than_color():
    _, root, other, *_ = artists(Choice())
    assert root.get_color() == other.get_color() == COLORS["communication"]
    assert root.get_linestyle() != other.get_linestyle()


@settings(max_examples=20, deadline=None)
@given(choices())
def test_texts_stay_on_the_picture_and_do_not_collide(choice):
    assert_texts_are_apart(choice)


@pytest.mark.parametrize("choice", [SMALLEST, LARGEST])
def test_nor_at_the_ends(choice):
    assert_texts_are_apart(choice)


def assert_texts_are_apart(choice):
    figure = star_link.figure(choice, POINTS)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    texts = [text for text in (*axes.texts, axes.xaxis.label, *ticks) if text.get_text()]
    boxes = [each.get_window_extent() for each in [*texts, *figure.legends]]
    page = figure.bbox
    for box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (one, other)


@pytest.fixture(scope="module")
def fast():
    """One drawing that goes from choice to choice, as behind the sliders."""
    drawing = Drawing(POINTS)
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@settings(max_examples=12, deadline=None)
@given(choice=choices())
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, star_link.figure(choice, POINTS))


@pytest.mark.parametrize("choice", [Choice(), SMALLEST, LARGEST])
def test_the_fast_picture_is_the_full_one_at_the_ends(fast, choice):
    assert_same_pixels(fast, choice, star_link.figure(choice, POINTS))


def test_the_figure_says_in_words_what_it_shows():
    data, _ = star_link.figure(Choice())._repr_mimebundle_()
    assert data["text/plain"] == (
        "Bytes over a link in a star all-reduce of 8 MiB, against the number of ranks: a straight line that "
        "rises for the root and a level one for each other rank, both marked at 4 ranks."
    )


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.star_link import Choice, figure\nfigure(Choice())"
    )


# --- the sliders ---


@pytest.fixture
def explorer():
    return star_link.explorer(POINTS)


@pytest.mark.parametrize("start", [Choice(), Choice(7, 12345, 1e6), LARGEST])
def test_it_begins_with_the_choice_it_is_given(start):
    assert star_link.explorer(start=start).choice == start


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_value_of_each_control_can_be_shown(explorer, name):
    control = controls_of(explorer)[name]
    assert len({text for text, _ in control.options}) == len(control.options)
    for _, value in control.options[::4]:
        control.value = value
        assert asdict(explorer.choice) == {**asdict(Choice()), name: value}
        assert explorer.numbers.value == readout(explorer.choice, POINTS).html()


def test_sliders_go_up():
    for control in controls_of(star_link.explorer(start=Choice(100, 12345, 1e9))).values():
        values = stops(control)
        assert values == sorted(values)


def test_the_text_in_a_stored_notebook_holds_no_measured_number(explorer):
    text = explorer._repr_mimebundle_()[0]["text/plain"]
    other = star_link.explorer([(*point[:1], 3 * point[1], *point[2:]) for point in POINTS])
    assert text == other._repr_mimebundle_()[0]["text/plain"]
