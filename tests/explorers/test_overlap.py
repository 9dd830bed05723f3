"""The explorer of lesson 07: it shows the simulator's step, and measured ones where they belong."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import measurements
from course_lib.explorers import overlap
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.overlap import COMPUTED, Choice, Drawing, Point, Work, points_of, readout
from course_lib.measurements import Measurement
from course_lib.palette import COLORS
from course_lib.simulator import Layer, simulate_step
from tests.explorers.controls import stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels
from tests.explorers.sheets import assert_readable, bars, line_through

MIB = 2**20
WORK = Work((Layer("a", (MIB, MIB), 0.01, 0.02), Layer("b", (2 * MIB,), 0.02, 0.05)), 0.003, 2e-4, "here")
SLOW = Choice(0.5, 12.5e6, 64, 1)
LONG = Choice(8.0, 12.5e9, 2, 16)
POINTS = [
    Point(name, mebibytes, 50e6, 2, 1, factor * COMPUTED.step(Choice(), mebibytes).seconds)
    for name, factor in (("the course's", 1.04), ("torch's DDP", 0.97)) for mebibytes in (0.5, 2.0, 8.0)
] + [Point("torch's DDP", 3.0, 25e6, 4, 2, 0.9)]  # fmt: skip

choices = st.builds(Choice, st.sampled_from([0.125, 1.0, 8.0]), st.sampled_from([12.5e6, 50e6, 1.25e9]),
                    st.integers(2, 64), st.integers(1, 16))  # fmt: skip


def panel_of(choice, work=COMPUTED, points=()):
    figure = overlap.figure(choice, work, points)
    figure.draw_without_rendering()
    return figure.axes[1]


def curves(axes):
    """Compute alone, with no overlap, predicted; the choice; measured ones. In seconds, and MiB."""
    top = next(text.get_text() for text in axes.texts if text.get_position()[1] == 1)
    number, unit = top.split()
    end = float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
    lines = [line for line in axes.lines if line.get_zorder() >= 100]
    lines.sort(key=lambda line: line.get_zorder())
    return [[(10**x, end * y) for x, y in line.get_xydata()] for line in lines]


@settings(max_examples=10, deadline=None)
@given(choices)
def test_the_panel_is_the_simulators_over_the_bucket_size(choice):
    alone, in_turn, predicted, here, *_ = curves(panel_of(choice))
    step = COMPUTED.step(choice)
    assert here == [pytest.approx((choice.bucket_mb, step.seconds))]
    assert predicted[0][0] == pytest.approx(0.125) and predicted[-1][0] == pytest.approx(8)  # of 7.1 MiB
    for (size, seconds), (_, longer) in zip(predicted[::6], in_turn[::6], strict=True):
        assert seconds == pytest.approx(COMPUTED.step(choice, size).seconds)
        assert longer == pytest.approx(COMPUTED.step(choice, size, overlap=False).seconds)
    assert alone[0][1] == pytest.approx(step.backward_end + COMPUTED.optimizer_seconds)


def test_a_step_is_of_the_work_and_of_the_choice():
    step = WORK.step(replace(SLOW, ranks=4))
    ring = simulate_step(WORK.layers, lambda size: 6 * 2e-4 + 1.5 * size / 12.5e6, bucket_mb=0.5,
                         first_bucket_mb=0.5, optimizer_seconds=0.003)  # fmt: skip
    assert step.seconds == pytest.approx(ring.seconds) and len(step.buckets) == 3


@pytest.mark.parametrize("choice", [Choice(), SLOW, LONG, replace(Choice(), micro_batches=3)])
def test_bars_are_the_spans_and_what_is_exposed_is_hatched(choice):
    page = overlap.figure(choice).axes[0]
    drawn, step = list(bars(page)), COMPUTED.step(choice)
    spans = [span for span in step.spans if span.kind != "idle"]
    assert [bar[0] for bar in drawn] == [COLORS[span.kind] for span in spans]
    places = [place for bar in drawn for place in bar[1:3]]
    scale, zero = line_through(zip([moment for span in spans for moment in (span.start, span.end)], places,
                                   strict=True))  # fmt: skip
    (waits,) = [patch for patch in page.patches if patch.get_hatch()]
    assert (waits.get_x(), waits.get_width()) == pytest.approx(
        (zero + scale * step.backward_end, scale * step.exposed_seconds), abs=1e-6)  # fmt: skip


def test_points_are_shown_where_rate_ranks_and_micro_batches_are_theirs():
    *_, course, ddp = curves(panel_of(Choice(), points=POINTS))
    assert course == [pytest.approx(point[1:2] + point[5:]) for point in POINTS[:3]]
    assert ddp == [pytest.approx(point[1:2] + point[5:]) for point in POINTS[3:6]]
    *_, course, ddp = curves(panel_of(Choice(1.0, 25e6, 4, 2), points=POINTS))
    assert (course, ddp) == ([], [pytest.approx((3.0, 0.9))])


def test_the_learners_stored_points_can_be_drawn():
    conditions = {"bucket_mb": 2.0, "rate": "400mbit", "ranks": 2, "implementation": "torch's DDP"}
    stored = Measurement("bucket-sweep", 0.25, "s", conditions, 5, 0.02, "real", "400 Mbit/s links",
                         "machine", "cpu", "2025-01-31T12:00:00+00:00")  # fmt: skip
    assert points_of([stored]) == [Point("torch's DDP", 2.0, 50e6, 2, 1, 0.25)]


RECORDED = measurements.origin_of(measurements.recorded("bucket-sweep")[0])


@pytest.mark.parametrize("origin", ["measured here", RECORDED])
def test_the_picture_says_where_its_points_are_from(origin):
    for figure in (overlap.figure(Choice(), points=POINTS, origin=origin),
                   overlap.explorer(points=POINTS, origin=origin)._drawing.figure):  # fmt: skip
        assert f"points: {origin}" in [text.get_text() for text in figure.axes[0].texts]
        assert_readable(figure, figure.axes[0])
    without = overlap.figure(Choice(), origin=origin).axes[0].texts
    assert not any("points" in text.get_text() for text in without)


def test_a_work_is_as_fast_as_the_step_that_was_measured_without_communication():
    stored = Measurement("bucket-sweep", 0.16, "s", {"part": "compute alone", "ranks": 2}, 2, 0.02, "real",
                         "400 Mbit/s links", "machine", "cpu", "2025-01-31T12:00:00+00:00")  # fmt: skip
    work = overlap.work_of([stored])
    step, computed = work.step(Choice()), COMPUTED.step(Choice())
    assert step.backward_end + work.optimizer_seconds == pytest.approx(0.16)
    assert step.backward_end / work.optimizer_seconds == pytest.approx(computed.backward_end / 5e-3)
    assert [bucket.bytes for bucket in step.buckets] == [bucket.bytes for bucket in computed.buckets]
    assert work.measured and "a step without communication that was measured: 160 ms" in work.origin
    assert points_of([stored]) == []  # no point of the sweep
    for none_or_two in ([], [stored, stored]):
        with pytest.raises(ValueError, match="part 'compute alone': expected one"):
            overlap.work_of(none_or_two)


def test_the_recorded_sweep_lies_about_where_its_own_work_is_predicted():
    recorded = measurements.recorded("bucket-sweep")
    work = overlap.work_of(recorded)
    for point in points_of(recorded):
        step = work.step(Choice(point.bucket_mb, point.rate, point.ranks))
        assert step.seconds == pytest.approx(point.seconds, rel=0.2), point


@pytest.mark.parametrize("micro_batches, names", [
    (1, ["forward", "backward"]), (16, ["16 × forward and backward"])])  # fmt: skip
def test_passes_are_named_or_counted(micro_batches, names):
    step = COMPUTED.step(replace(Choice(), micro_batches=micro_batches))
    written = [name for name, *_ in overlap._names(step, 5 / step.seconds)]
    assert [name for name in written if not name.startswith("waits")] == names


def test_the_readout_adds_up():
    rows = dict(readout(Choice()).rows)
    assert rows["communication"] == "150 ms"  # 7.4 MB at 50 MB/s, and 7 calls of two messages
    assert (rows["– hidden behind backward"], rows["– exposed"]) == ("98.2 ms", "51.5 ms")
    assert (rows["forward and backward"], rows["optimizer"], rows["step"]) == ("315 ms", "5 ms", "371 ms")
    assert readout(LONG).notes[2] == "Only the last of 16 backward passes hides anything."


def test_the_text_in_a_stored_notebook_holds_nothing_measured():
    explorer = overlap.explorer(WORK, POINTS)
    text = explorer._repr_mimebundle_()[0]["text/plain"]
    assert text == overlap.description(Choice())
    assert f">{overlap.duration(WORK.step(Choice()).seconds)}<" in explorer.numbers.value
    assert overlap.explorer()._repr_mimebundle_()[0]["text/plain"] == readout(Choice()).text()


@pytest.mark.parametrize("wrong, sentence", [
    ({"bucket_mb": 0.1}, "bucket_mb=0.1: expected a number, 0.125 or more, 1024.0 at most"),
    ({"rate": 0}, "rate=0: expected a number above 0"),
    ({"ranks": 65}, "ranks=65: expected a number, 2 or more, 64 at most"),
    ({"micro_batches": 17}, "micro_batches=17: expected a number, 1 or more, 16 at most"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value) == sentence


def test_points_of_too_many_implementations_are_refused():
    points = [Point(f"{n}", 1.0, 50e6, 2, 1, 0.1) for n in range(6)]
    with pytest.raises(ValueError, match="points of 6 implementations: expected 5 at most"):
        overlap.figure(Choice(), points=points)


@pytest.mark.parametrize("choice, points", [
    (Choice(), POINTS), (SLOW, ()), (LONG, POINTS), (replace(Choice(), micro_batches=3), POINTS),
    (Choice(8.0), ())])  # fmt: skip
def test_texts_stay_on_the_picture_and_do_not_collide(choice, points):
    figure = overlap.figure(choice, points=points)
    assert_readable(figure, figure.axes[0])


@pytest.fixture(scope="module")
def fast():
    drawing = Drawing(points=POINTS)
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@pytest.mark.parametrize("choice", [Choice(), SLOW, LONG])
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, overlap.figure(choice, points=POINTS))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.overlap import Choice, figure\nfigure(Choice())"
    )


@pytest.fixture(scope="module")
def explorer():
    return overlap.explorer(points=POINTS)


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_stop_of_each_slider_can_be_shown(explorer, controls, name):
    for value in stops(controls[name]):
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        assert f">{overlap.duration(COMPUTED.step(explorer.choice).seconds)}<" in explorer.numbers.value


def test_sliders_stop_where_points_were_measured(controls):
    assert 3.0 in stops(controls["bucket_mb"]) and 4 in stops(controls["ranks"])
    assert overlap.explorer(start=SLOW).choice == SLOW
