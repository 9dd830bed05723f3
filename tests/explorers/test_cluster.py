"""The explorer of many ranks: it shows the simulator's cluster, and measured steps where they belong."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.explorers import cluster
from course_lib.explorers.cluster import Choice, Drawing, Point, readout
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.overlap import COMPUTED, Work
from course_lib.simulator import LEFT_OUT, Layer, Link, simulate_cluster, simulate_step
from tests.explorers.controls import stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels
from tests.explorers.sheets import assert_readable

MIB = 2**20
WORK = Work((Layer("a", (MIB, MIB), 0.01, 0.02), Layer("b", (2 * MIB,), 0.02, 0.05)), 0.003, 2e-4, "here")
POINTS = [Point(name, ranks, 50e6, 1.0, 1, factor * ranks / 6, ranks / 6)
          for name, factor in (("the course's ring", 1.04), ("torch's DDP", 0.97))
          for ranks in (2, 4)] + [Point("torch's DDP", 3, 25e6, 3.0, 6, 0.9, 0.8)]  # fmt: skip
SLOW = Choice(4096, 12.5e6, 0.125, 16, 1000.0, 0.5)
ALIKE = Choice(2, 12.5e9, 256.0, 1, 1.0, 0.0)
WORLDS = [2**power for power in range(1, 13)]

choices = st.builds(Choice, st.sampled_from([2, 64, 4096]), st.sampled_from([12.5e6, 50e6, 1.25e9]),
                    st.sampled_from([0.125, 1.0, 8.0]), st.integers(1, 16), st.sampled_from([1.0, 10.0]),
                    st.sampled_from([0.0, 0.1, 0.5]))  # fmt: skip


def shown(choice, points=()):
    """Seconds by ranks: compute alone, alike, simulated, predicted, measured ones of each implementation."""
    figure = cluster.figure(choice, points=points)
    figure.draw_without_rendering()
    axes = figure.axes[1]
    ticks = {text.get_text(): text.get_position()[1] for text in axes.texts if text.get_text()}
    (first, least), (second, higher), *_ = ticks.items()
    units = {"µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
    start, next_one = (float(number.replace(",", "")) * units[unit]
                       for number, unit in (text.split() for text in (first, second)))  # fmt: skip
    lines = sorted(axes.lines, key=lambda line: line.get_zorder())
    return [[(10**x, start * (next_one / start) ** ((y - least) / (higher - least)))
             for x, y in line.get_xydata()] for line in lines[:-1]]  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(choices)
def test_the_curves_are_the_simulators(choice):
    alone, alike, simulated, *_ = shown(choice)
    for n, ranks in enumerate(WORLDS[::5]):
        found = simulate_cluster(
            COMPUTED.layers, ranks, Link(COMPUTED.latency, choice.rate),
            slow_link=Link(COMPUTED.latency, choice.rate / choice.slower), jitter=choice.jitter,
            steps=cluster.STEPS, bucket_mb=choice.bucket_mb, first_bucket_mb=choice.bucket_mb,
            micro_batches=choice.micro_batches, optimizer_seconds=COMPUTED.optimizer_seconds)  # fmt: skip
        assert simulated[5 * n] == pytest.approx((ranks, found.seconds))
        step = simulate_step(
            COMPUTED.layers, lambda size, n=ranks: 2 * (n - 1) * (COMPUTED.latency + size / n / choice.rate),
            bucket_mb=choice.bucket_mb, first_bucket_mb=choice.bucket_mb,
            micro_batches=choice.micro_batches, optimizer_seconds=COMPUTED.optimizer_seconds)  # fmt: skip
        assert alike[5 * n] == pytest.approx((ranks, step.seconds))
        assert alone[5 * n] == pytest.approx((ranks, step.backward_end + step.optimizer_seconds))


def test_the_shares_are_of_the_step():
    choice = Choice(slower=2.0, jitter=0.3)
    axes = cluster.figure(choice).axes[2]
    exposed, waiting, computing = (patch.get_xy() for patch in axes.patches)
    for n, ranks in enumerate(WORLDS):
        found = choice.cluster(COMPUTED, ranks)
        assert waiting[n][1] == pytest.approx(found.exposed_seconds / found.seconds)
        assert computing[n][1] - waiting[n][1] == pytest.approx(found.idle_seconds / found.seconds)
    assert set(exposed[:12, 1]) == {0} and set(computing[12:24, 1]) == {1}


def test_points_are_shown_where_rate_buckets_and_micro_batches_are_theirs():
    *_, predicted, course, ddp = shown(Choice(jitter=0.0), POINTS)
    assert predicted == [pytest.approx((n, n / 6)) for n in (2, 4, 2, 4)]
    assert course == [pytest.approx((n, 1.04 * n / 6)) for n in (2, 4)]
    assert ddp == [pytest.approx((n, 0.97 * n / 6)) for n in (2, 4)]
    *_, predicted, course, ddp = shown(Choice(64, 25e6, 3.0, 6, jitter=0.0), POINTS)
    assert (predicted, course, ddp) == ([pytest.approx((3, 0.8))], [], [pytest.approx((3, 0.9))])
    for other in ({"jitter": 0.1}, {"jitter": 0.0, "slower": 2.0}):  # measured on ranks and links alike
        assert shown(Choice(**other), POINTS)[3:] == [[], [], []]


def test_the_readout_is_the_choices_cluster():
    choice = Choice(16, slower=10.0, jitter=0.2)
    found, alike = choice.cluster(COMPUTED), choice.cluster(COMPUTED, alike=True)
    rows = dict((name, numbers) for name, *numbers in readout(choice).rows)
    assert rows["step"] == [cluster.duration(each.seconds) for each in (found, alike)]
    assert rows["waiting for late ranks"] == [cluster.duration(found.idle_seconds), "0 µs"]
    assert "most often for rank 0: " in readout(choice).notes[0]  # its link is the slow one
    assert "No rank waited" in readout(replace(choice, slower=1.0, jitter=0.0)).notes[0]


def test_what_is_left_out_stands_beside_each_picture():
    assert all(part in readout(Choice()).notes[-1] for part in LEFT_OUT)


def test_the_text_in_a_stored_notebook_holds_nothing_measured():
    explorer = cluster.explorer(WORK, POINTS)
    assert explorer._repr_mimebundle_()[0]["text/plain"] == cluster.description(Choice())
    assert f">{cluster.duration(Choice().cluster(WORK).seconds)}<" in explorer.numbers.value
    assert cluster.explorer()._repr_mimebundle_()[0]["text/plain"] == readout(Choice()).text()


@pytest.mark.parametrize("wrong, sentence", [
    ({"ranks": 1}, "ranks=1: expected a number, 2 or more, 4096 at most"),
    ({"rate": 0}, "rate=0: expected a number above 0"),
    ({"bucket_mb": 0.1}, "bucket_mb=0.1: expected a number, 0.125 or more, 1024.0 at most"),
    ({"micro_batches": 17}, "micro_batches=17: expected a number, 1 or more, 16 at most"),
    ({"slower": 0.5}, "slower=0.5: expected a number, 1 or more, 1000.0 at most"),
    ({"jitter": 1}, "jitter=1: expected a number, 0 or more, 0.5 at most"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value) == sentence


def test_points_of_too_many_implementations_are_refused():
    points = [Point(f"{n}", 2, 50e6, 1.0, 1, 0.1, 0.1) for n in range(6)]
    with pytest.raises(ValueError, match="points of 6 implementations: expected 5 at most"):
        cluster.figure(Choice(), points=points)


@pytest.mark.parametrize("choice, points", [(Choice(jitter=0.0), POINTS), (SLOW, POINTS), (ALIKE, ())])
def test_texts_stay_on_the_picture_and_do_not_collide(choice, points):
    figure = cluster.figure(choice, points=points)
    assert_readable(figure, figure.axes[0])


@pytest.fixture(scope="module")
def fast():
    drawing = Drawing(points=POINTS)
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@pytest.mark.parametrize("choice", [Choice(jitter=0.0), SLOW, ALIKE])
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, cluster.figure(choice, points=POINTS))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.cluster import Choice, figure\nfigure(Choice())"
    )


@pytest.fixture(scope="module")
def explorer():
    return cluster.explorer(points=POINTS)


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_stop_of_each_slider_can_be_shown(explorer, controls, name):
    for value in stops(controls[name]):
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        assert f">{cluster.duration(explorer.choice.cluster(COMPUTED).seconds)}<" in explorer.numbers.value


def test_sliders_stop_where_points_were_measured(controls):
    assert 3.0 in stops(controls["bucket_mb"]) and 3 in stops(controls["ranks"])
    assert cluster.explorer(start=SLOW).choice == SLOW
