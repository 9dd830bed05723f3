"""The explorer of lesson 06: its buckets are those of ``buckets.assign``, its times the simulator's."""

from dataclasses import fields, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.buckets import MIB
from course_lib.cost_model import all_reduce_seconds
from course_lib.explorers import buckets
from course_lib.explorers.buckets import ORDERS, PLACES, Choice, Drawing, layers_of, readout, step
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.gpt_layers import gpt_layers
from course_lib.palette import COLORS
from course_lib.transformer import CONFIGS, GPT, TransformerConfig
from tests.explorers.controls import stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels
from tests.explorers.sheets import assert_readable, bars, line_through

LATE = Choice(embedding="last")
LEAST, MOST = Choice(1.0, 1, "forward", "last", 2), Choice(1.0, 24, ranks=1024)

choices = st.builds(
    Choice, st.sampled_from([1.0, 5.0, 25.0, 200.0, inf]), st.integers(1, 24), st.sampled_from(ORDERS),
    st.sampled_from(PLACES), st.integers(2, 1024),
)  # fmt: skip


def test_layers_are_those_of_the_module_and_take_what_the_formula_says():
    config = TransformerConfig(3, 64, 2, vocab=100, context=32)
    layers = gpt_layers(config, 2, 16, 1e9, 4)
    sizes = [4 * parameter.numel() for parameter in GPT(config).parameters()]
    assert [size for layer in layers for size in layer.parameter_bytes] == sizes
    forward, backward = (sum(getattr(layer, name) for layer in layers)
                         for name in ("forward_seconds", "backward_seconds"))  # fmt: skip
    assert forward + backward == pytest.approx(config.flops_per_token(16) * 32 / 1e9)
    assert backward == pytest.approx(2 * forward)


def test_it_begins_with_gpt_2_small():
    sizes = [size for layer in layers_of(Choice()) for size in layer.parameter_bytes]
    assert sum(sizes) == 4 * CONFIGS["gpt-2-small"].parameters
    first, *_, last = step(Choice()).buckets
    assert first.bytes >= MIB and last.parameters[-1] == 0  # the embedding is the last to be ready


@settings(max_examples=25, deadline=None)
@given(choices)
def test_buckets_hold_each_parameter_once_in_the_chosen_order(choice):
    taken = [index for bucket in step(choice).buckets for index in bucket.parameters]
    expected = {"reverse": buckets.registered(choice)[::-1], "forward": buckets.registered(choice),
                "as ready": list(range(len(taken)))[::-1]}[choice.order]  # fmt: skip
    assert taken == expected
    assert (len(step(choice).buckets) == 1) == (choice.bucket_mb == inf)


def test_order_and_place_decide_what_is_exposed():
    exposed = {(order, place): step(replace(Choice(), order=order, embedding=place)).exposed_seconds
               for order in ORDERS for place in PLACES}  # fmt: skip
    whole = sum(bucket.end - bucket.start for bucket in step(Choice(order="forward")).buckets)
    assert exposed["forward", "first"] == pytest.approx(whole)  # waits for the last gradient, hides nothing
    assert exposed["reverse", "last"] == pytest.approx(whole, rel=0.01)
    assert exposed["as ready", "last"] == exposed["as ready", "first"] == exposed["reverse", "first"]
    assert exposed["reverse", "first"] < whole / 2


def test_the_readout_is_the_simulators():
    head, *rows = readout(Choice()).rows
    done = step(Choice())
    assert head == ("", "holds", "bytes", "ready", "starts", "ends") and rows[4][0] == "…"
    assert rows[0][:3] == ("bucket 0", "head … layer 11", "9.446 MB")
    assert rows[-1][0] == f"bucket {len(done.buckets) - 1}"
    seconds = all_reduce_seconds("ring", done.buckets[-1].bytes, 8, 5e-6, 25e9)
    assert done.buckets[-1].end - done.buckets[-1].start == pytest.approx(seconds)
    assert [row[0] for row in readout(Choice(100.0)).rows[1:]] == [f"bucket {n}" for n in range(5)]
    assert readout(Choice()).notes[1].startswith("497.8 MB of gradients in 13 calls; the ring sends 1.75 ti")


@pytest.mark.parametrize("wrong, sentence", [
    ({"bucket_mb": 0}, "bucket_mb=0: expected a number above 0"),
    ({"layers": 25}, "layers=25: expected a number, 1 or more, 24 at most"),
    ({"order": "backward"}, "order='backward': expected one of 'reverse', 'forward', 'as ready'"),
    ({"embedding": "middle"}, "embedding='middle': expected one of 'first', 'last'"),
    ({"ranks": 1}, "ranks=1: expected a number, 2 or more, 1024 at most"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("choice", [Choice(), LATE, LEAST, MOST, Choice(inf)])
def test_bars_are_as_long_as_times_and_bytes(choice):
    drawn = list(bars(buckets.figure(choice).axes[0]))
    done = step(choice)
    reductions = [bar for bar in drawn if bar[0] == COLORS["communication"]]
    times = [moment for bucket in done.buckets for moment in (bucket.start, bucket.end)]
    line_through(zip(times, [place for bar in reductions for place in bar[1:3]], strict=True))
    passes = [bar for bar in drawn if bar[0] == COLORS["compute"]]
    assert len(passes) == choice.layers + 2
    held = {}
    for color, left, right, top in drawn[choice.layers + 2 : -len(reductions) - len(passes)]:
        held[color, top] = held.get((color, top), 0) + right - left
    whole = sum(bucket.bytes for bucket in done.buckets)
    even = sum(bucket.bytes for bucket in done.buckets[::2])
    assert sorted(held.values()) == pytest.approx(
        sorted(width * sum(held.values()) / whole for width in {even, whole - even} - {0}))  # fmt: skip


@pytest.mark.parametrize("choice", [Choice(), LATE, LEAST, MOST, Choice(inf), Choice(100.0, 24, ranks=64)])
def test_texts_stay_on_the_picture_and_do_not_collide(choice):
    figure = buckets.figure(choice)
    assert_readable(figure, figure.axes[0])


@pytest.fixture(scope="module")
def fast():
    drawing = Drawing()
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@pytest.mark.parametrize("choice", [Choice(), LATE, LEAST, MOST])
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, buckets.figure(choice))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.buckets import Choice, figure\nfigure(Choice())"
    )


# --- the sliders ---


@pytest.fixture(scope="module")
def explorer():
    return buckets.explorer()


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_stop_of_each_slider_can_be_shown(explorer, controls, name):
    for value in stops(controls[name]):
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        calls = len(step(explorer.choice).buckets)
        assert f"in {calls:,} call{'s' if calls > 1 else ''};" in explorer.numbers.value


def test_a_stored_notebook_keeps_the_numbers_and_says_what_is_seen(explorer):
    data, metadata = explorer._repr_mimebundle_()
    assert data["text/plain"] == metadata["image/png"]["alt"] == readout(Choice()).text()
    assert buckets.explorer(LEAST).choice == LEAST
    assert buckets.figure(Choice()).description.startswith("A GPT of 12 layers as a row of its param")
