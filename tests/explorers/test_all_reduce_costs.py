"""The explorer of lesson 04: its numbers are the cost model's, and its picture shows these numbers."""

import itertools
import math
import re
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from course_lib import cost_model, measurements
from course_lib.cost_model import ALGORITHMS, all_reduce_seconds
from course_lib.explorers import all_reduce_costs
from course_lib.explorers.all_reduce_costs import TORCH, Choice, Drawing, Point, points_of, readout
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.measurements import Measurement
from course_lib.palette import COLORS
from course_lib.transformer import CONFIGS
from tests.explorers.controls import stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels

MIB = 2**20
SLOW = Choice(4, 8 * MIB, 5e-4, 50e6)
LEAST, MOST = Choice(2, 2**10, 0.0, 1e12), Choice(4096, 2**35, 1e-2, 1e6)
POINTS = [
    Point(name, size, ranks, 1.06 * all_reduce_seconds(name, size, ranks, 5e-4, 50e6))
    for name in ("star", "unchunked-ring", "ring") for size in (8 * MIB, 32 * MIB) for ranks in (2, 3, 4)
] + [Point(TORCH, 8 * MIB, 4, 0.26)]  # fmt: skip

choices = st.builds(
    Choice, st.integers(2, 4096), st.integers(2**10, 2**35),
    st.just(0.0) | st.floats(-7, -2).map(lambda power: 10**power),
    st.floats(6, 12).map(lambda power: 10**power),
)  # fmt: skip


def panels(choice, points=()):
    """The two axes of a figure: over the size, and over the ranks."""
    figure = all_reduce_costs.figure(choice, points)
    figure.draw_without_rendering()
    return figure.axes


def moving(axes):
    """What moves, in order: the limit, where the choice stands, six lines, six marks, measured points."""
    lines = [line for line in axes.lines if line.get_zorder() >= 100]
    lines.sort(key=lambda line: line.get_zorder())
    return lines[0], lines[1], lines[2:8], lines[8:14], lines[14:]


# --- the numbers ---


@settings(deadline=None)
@given(choices)
def test_the_readout_is_the_cost_models(choice):
    head, *body = readout(choice).rows
    assert head == ("", "messages", "× tensor", "time", "busbw")
    assert [name for name, *_ in body] == [*ALGORITHMS, "limit"]
    for name, messages, tensors, time, rate in body[:-1]:
        expected = cost_model.terms(name, choice.ranks)
        assert (messages, tensors) == (f"{expected.messages:,}", f"{expected.tensors:,.6g}")
        assert time == all_reduce_costs.seconds_text(choice.seconds(name))
        busbw = cost_model.bus_bandwidth("all-reduce", choice.bytes, choice.seconds(name), choice.ranks)
        assert rate == all_reduce_costs.byte_rate_text(busbw)
    assert body[-1][-1] == all_reduce_costs.byte_rate_text(choice.bandwidth)


def test_gpt_2_small_on_8_gpus_is_where_it_begins():
    rows = {name: others for name, *others in readout(Choice()).rows}
    assert rows["ring"] == ["14", "1.75", "1.038 ms", "419.6 GB/s"]
    assert rows["halving-doubling"] == ["6", "1.75", "997.9 µs", "436.5 GB/s"]
    assert rows["limit"] == ["0", "1.75", "967.9 µs", "450 GB/s"]
    assert Choice().bytes == 2 * CONFIGS["gpt-2-small"].parameters


@pytest.mark.parametrize(("choice", "fastest"), [
    (Choice(), ["halving-doubling"]), (replace(SLOW, bytes=2**10), ["recursive-doubling"]),
    (replace(SLOW, ranks=6), ["ring"]), (replace(SLOW, ranks=6, latency=1.0), ["recursive-doubling"]),
    (replace(SLOW, latency=0.0), ["halving-doubling", "ring"])])
def test_the_fastest_is_said(choice, fastest):
    assert choice.fastest == fastest
    assert readout(choice).notes[0] == f"Fastest here: {', '.join(fastest)}."


def test_what_pairs_pay_is_said_where_n_is_no_power_of_two():
    assert len(readout(SLOW).notes) == 2
    assert readout(replace(SLOW, ranks=6)).notes[2].startswith("6 is no power of two, so algorithms that")


@pytest.mark.parametrize(("text", "expected"), [
    (all_reduce_costs.bytes_text(8 * MIB), "8 MiB"), (all_reduce_costs.bytes_text(2**10), "1 KiB"),
    (all_reduce_costs.bytes_text(1536), "1.536 kB"), (all_reduce_costs.bytes_text(2**35), "32 GiB"),
    (all_reduce_costs.bytes_text(13_476_831_232), "13.48 GB"),
    (all_reduce_costs.bytes_text(248_879_616), "248.9 MB"),
    (all_reduce_costs.seconds_text(3.6e5), "4.167 days"),
    (all_reduce_costs.seconds_text(0.9999996), "1 s"), (all_reduce_costs.seconds_text(2.5e-9), "2.5 ns"),
    (all_reduce_costs.byte_rate_text(450e9), "450 GB/s"),
    (all_reduce_costs.byte_rate_text(0.25), "0.25 B/s")])
def test_numbers_are_short_and_have_units(text, expected):
    assert text == expected


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"ranks": 1}, "ranks=1: expected 2 to 4096"), ({"ranks": 4097}, "ranks=4097: expected 2 to 4096"),
    ({"ranks": 2.5}, "ranks=2.5: expected a positive whole number"),
    ({"bytes": 1023}, "bytes=1023: expected 1024 to 34359738368"),
    ({"bytes": "8 MiB"}, "bytes='8 MiB': expected a positive whole number"),
    ({"latency": -1e-6}, "latency=-1e-06: expected a number, 0 or more"),
    ({"bandwidth": 0}, "bandwidth=0: expected a number above 0"),
    ({"bandwidth": math.nan}, "bandwidth=nan: expected a number above 0"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value).startswith(sentence)


# --- the picture ---


@settings(max_examples=15, deadline=None)
@given(choices)
def test_lines_are_the_models_times_at_their_logarithms(choice):
    places = {"bytes": [2**n for n in range(10, 36)], "ranks": [2**n for n in range(1, 13)]}
    for axes, (over, values) in zip(panels(choice), places.items(), strict=True):
        limit, here, lines, _, measured = moving(axes)
        assert 10 ** np.unique(here.get_xdata()) == pytest.approx([getattr(choice, over)])
        for line, name in zip(lines, ALGORITHMS, strict=True):
            at = [{**asdict(choice), over: value} for value in values]
            assert 10 ** np.array(line.get_xdata()) == pytest.approx(values)
            expected = [all_reduce_seconds(name, **each) for each in at]
            assert 10 ** np.array(line.get_ydata()) == pytest.approx(expected)
        lowest = [
            cost_model.limit_seconds(each["bytes"], each["ranks"], choice.bandwidth) for each in at]
        assert 10 ** np.array(limit.get_ydata()) == pytest.approx(lowest)
        assert measured == []


@settings(max_examples=15, deadline=None)
@given(choices)
def test_marks_stand_at_the_choices_times_at_the_same_height_in_both(choice):
    for axes, over in zip(panels(choice), ("bytes", "ranks"), strict=True):
        for mark, name in zip(moving(axes)[3], ALGORITHMS, strict=True):
            (place,) = 10 ** mark.get_xydata()
            seconds = np.clip(choice.seconds(name), 1e-6, 1e4)
            assert place == pytest.approx([getattr(choice, over), seconds])


@pytest.mark.parametrize(("choice", "markers"), [(SLOW, "*XsDPo"), (LEAST, "vvvvvv"), (MOST, "^^^^^^")])
def test_what_lies_beyond_the_axis_becomes_an_arrow_at_its_edge(choice, markers):
    for axes in panels(choice):
        assert "".join(mark.get_marker() for mark in moving(axes)[3]) == markers
        assert not any(mark.get_clip_on() for mark in moving(axes)[3])  # at the edge they are seen whole


def test_the_gray_lies_below_the_limit():
    for axes in panels(SLOW):
        limit = moving(axes)[0].get_xydata()
        (gray,) = axes.patches
        assert np.array_equal(gray.get_xy()[: len(limit)], limit)
        assert gray.get_xy()[len(limit) : -1, 1].max() < axes.get_ylim()[0]


def shown(artists):
    return sorted(tuple(10 ** np.array(place)) for artist in artists for place in artist.get_xydata())


@pytest.mark.parametrize("choice", [SLOW, replace(SLOW, bytes=32 * MIB), replace(SLOW, ranks=4096), Choice()])
def test_measured_points_are_marked_where_they_have_the_choices_ranks_or_size(choice):
    left, right = panels(choice, POINTS)
    over_bytes = sorted((p.bytes, p.seconds) for p in POINTS if p.ranks == choice.ranks)
    over_ranks = sorted((p.ranks, p.seconds) for p in POINTS if p.bytes == choice.bytes)
    for axes, expected in ((left, over_bytes), (right, over_ranks)):
        assert np.array(shown(moving(axes)[4])).ravel() == pytest.approx(np.array(expected).ravel())


def test_all_measured_points_are_on_both_axes_in_pale():
    for axes, over in zip(panels(Choice(), POINTS), ("bytes", "ranks"), strict=True):
        (pale,) = [line for line in axes.lines if line.get_zorder() < 100]
        expected = sorted((getattr(point, over), point.seconds) for point in POINTS)
        assert np.array(shown([pale])).ravel() == pytest.approx(np.array(expected).ravel())


def test_points_have_the_marks_of_their_algorithms():
    left, _ = panels(SLOW, POINTS)
    assert "".join(artist.get_marker() for artist in moving(left)[4]) == "*Pox"


@pytest.mark.parametrize(("point", "sentence"), [
    (("rings", MIB, 4, 1.0), "algorithm='rings': expected one of"),
    (("ring", 0, 4, 1.0), "Point(algorithm='ring', bytes=0, ranks=4, seconds=1.0): expected bytes, "),
    (("ring", MIB, 4, math.nan), "Point(algorithm='ring', bytes=1048576, ranks=4, seconds=nan): expected"),
    (("ring", MIB, "4", 1.0), "Point(algorithm='ring', bytes=1048576, ranks='4', seconds=1.0): expect")])
def test_a_point_that_can_not_be_drawn_is_refused(point, sentence):
    with pytest.raises(ValueError) as caught:
        all_reduce_costs.figure(SLOW, [point])
    assert str(caught.value).startswith(sentence)


def test_the_learners_stored_points_can_be_drawn():
    conditions = {"ranks": 4, "bytes": 8 * MIB, "algorithm": "ring"}
    stored = Measurement("all-reduce", 0.25, "s", conditions, 5, 0.02, "real", "400 Mbit/s links", "machine",
                         "cpu", "2025-01-31T12:00:00+00:00")  # fmt: skip
    assert points_of([stored]) == [Point("ring", 8 * MIB, 4, 0.25)]


def test_rings_have_the_color_of_communication_and_the_others_none():
    left, _ = panels(SLOW)
    colors = [to_hex(line.get_color()).upper() for line in moving(left)[2]]
    assert colors == 4 * ["#000000"] + 2 * [COLORS["communication"]]
    styles = [line.get_linestyle() for line in moving(left)[2]]
    assert len(set(zip(colors, styles, strict=True))) == 6


ORIGIN = measurements.origin_of(measurements.recorded("all-reduce")[0])


@pytest.mark.parametrize("points, origin", [((), ""), (POINTS, ""), (POINTS, ORIGIN)])
def test_the_picture_says_where_its_points_are_from(points, origin):
    (key,) = all_reduce_costs.figure(SLOW, points, origin).legends
    assert key.get_title().get_text() == (f"points: {origin}" if origin else "")


@pytest.mark.parametrize("points", [(), POINTS])
@pytest.mark.parametrize("choice", [
    Choice(), SLOW, LEAST, MOST, replace(SLOW, ranks=3072, bytes=13_476_831_232)])
def test_texts_stay_on_the_picture_and_do_not_collide(choice, points):
    figure = all_reduce_costs.figure(choice, points, ORIGIN)
    figure.draw_without_rendering()
    left, right = figure.axes
    labels = [*left.get_xticklabels(), *left.get_yticklabels(), *right.get_xticklabels()]
    titles = [text for axes in figure.axes for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label)]
    boxes = [text.get_window_extent() for text in [*labels, *titles, *figure.legends]
             if text in figure.legends or text.get_text()]  # fmt: skip
    page = figure.bbox
    for box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (one, other)


def test_axes_and_panels_say_what_they_show():
    left, right = panels(SLOW)
    assert (left.get_xlabel(), left.get_ylabel()) == ("size of the tensor", "time of one all-reduce")
    assert right.get_xlabel() == "ranks N"
    assert ([text.get_text() for text in left.texts], [text.get_text() for text in right.texts]) == (
        ["4 ranks"], ["8 MiB"])
    assert left.get_ylim() == right.get_ylim() == (-6, 4)
    assert [text.get_text() for text in left.get_yticklabels()][3::3] == ["1 ms", "1 s", "1,000 s"]


@pytest.fixture(scope="module")
def fast():
    """One drawing that goes from choice to choice, as behind the sliders."""
    drawing = Drawing(POINTS)
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@settings(max_examples=12, deadline=None)
@given(choice=choices)
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, all_reduce_costs.figure(choice, POINTS))


@pytest.mark.parametrize("choice", [Choice(), SLOW, LEAST, MOST])
def test_the_fast_picture_is_the_full_one_at_the_ends(fast, choice):
    assert_same_pixels(fast, choice, all_reduce_costs.figure(choice, POINTS))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.all_reduce_costs import Choice, figure\nfigure(Choice())"
    )


def test_the_figure_says_in_words_what_it_shows():
    data, _ = all_reduce_costs.figure(SLOW)._repr_mimebundle_()
    assert data["text/plain"] == (
        "Time of an all-reduce by the cost model, for six algorithms and the limit: for 4 ranks over the "
        "size of the tensor, and for 8 MiB over the number of ranks, with 500 µs a message and links of "
        "50 MB/s."
    )


# --- the sliders ---


@pytest.fixture(scope="module")
def explorer():
    return all_reduce_costs.explorer(POINTS)


@pytest.mark.parametrize("start", [SLOW, Choice(7, 12_345_678, 0.0, 48.7e6), LEAST, MOST])
def test_it_begins_with_the_choice_it_is_given(start):
    assert all_reduce_costs.explorer(start=start).choice == start


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_stop_of_each_slider_can_be_shown(explorer, controls, name):
    for value in stops(controls[name]):
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        for algorithm in ALGORITHMS:
            seconds = all_reduce_costs.seconds_text(explorer.choice.seconds(algorithm))
            assert f">{seconds}<" in explorer.numbers.value


def test_sliders_go_up_and_each_stop_has_a_label_of_its_own(controls):
    for control in controls.values():
        assert stops(control) == sorted(set(stops(control)))
        labels = [label for label, _ in control.options]
        assert len(set(labels)) == len(labels)
    assert {name: (stops(control)[0], stops(control)[-1]) for name, control in controls.items()} == {
        "ranks": (2, 4096), "bytes": (2**10, 2**35), "latency": (0.0, 1e-2), "bandwidth": (1e6, 1e12)}


def test_sliders_stop_where_points_were_measured():
    explorer = all_reduce_costs.explorer([Point("ring", 12_345_678, 11, 1.0)])
    ranks, size, *_ = explorer.children[0].children
    assert 11 in stops(ranks) and 12_345_678 in stops(size)


def test_known_sizes_and_links_are_named(controls):
    labels = [label for control in controls.values() for label, _ in control.options]
    known = {
        "248.9 MB: GPT-2 small", "13.48 GB: Llama-2-7B", "50 MB/s: 400 Mbit/s",
        "450 GB/s: NVLink 4", "31 GB/s: PCIe 4 x16", "50 GB/s: IB NDR"}  # fmt: skip
    assert known <= set(labels)


def test_a_move_changes_picture_and_numbers_in_place(explorer, controls):
    before, children = explorer.picture.value, explorer.children
    controls["ranks"].value = 4096
    assert explorer.picture.value != before and explorer.children is children
    controls["ranks"].value = 8
    assert explorer.picture.value == before


def test_the_text_in_a_stored_notebook_holds_nothing_measured(explorer):
    texts = [each._repr_mimebundle_()[0]["text/plain"] for each in (explorer, all_reduce_costs.explorer())]
    assert texts[0] == texts[1]
    assert re.search(r"^halving-doubling +6 +1\.75 +997\.9 µs +436\.5 GB/s$", texts[0], re.MULTILINE)
