"""One step, computed: a case worked by hand, and what holds for every step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import buckets, timeline
from course_lib.simulator import Layer, simulate_step

MIB = 2**20

seconds = st.floats(0, 10)
sizes = st.lists(st.integers(0, 3 * MIB), max_size=4).map(tuple)
layers = st.lists(st.builds(Layer, st.just("layer"), sizes, seconds, seconds), min_size=1, max_size=8)
settings = st.fixed_dictionaries({
    "bucket_mb": st.floats(0.01, 8) | st.just(math.inf), "first_bucket_mb": st.floats(0.01, 8),
    "overlap": st.booleans(), "micro_batches": st.integers(1, 4), "optimizer_seconds": seconds,
})  # fmt: skip
costs = st.tuples(st.floats(0, 0.1), st.floats(1e5, 1e9))


def reduce_seconds(cost):
    latency, rate = cost
    return lambda size: latency + size / rate


def work(of, given):
    """Seconds of compute, the optimizer included."""
    one_pass = sum(layer.forward_seconds + layer.backward_seconds for layer in of)
    return given["micro_batches"] * one_pass + given["optimizer_seconds"]


def communication(step):
    return sum(bucket.end - bucket.start for bucket in step.buckets)


# --- worked by hand ---

# A weight of 2 MiB in each of three layers, buckets of 2 MiB, 1 s for each MiB and 0.5 s for each call.
THREE = [Layer("a", (2 * MIB,), 1, 2), Layer("b", (2 * MIB,), 1, 2), Layer("c", (2 * MIB,), 1, 3)]
BY_HAND = {"bucket_mb": 2.0, "first_bucket_mb": 2.0, "optimizer_seconds": 0.25}


def seconds_by_hand(size):
    return 0.5 + size / MIB


def test_three_layers_by_hand():
    step = simulate_step(THREE, seconds_by_hand, **BY_HAND)
    # Forward ends at 3.  c is ready at 6, b at 8, a at 10.  The channel: 6 to 8.5, to 11, to 13.5.
    assert step.buckets == ((
        (2,), 2 * MIB, 6, 6, 8.5), ((1,), 2 * MIB, 8, 8.5, 11), ((0,), 2 * MIB, 10, 11, 13.5),
    )  # fmt: skip
    assert (step.seconds, step.exposed_seconds, step.hidden_seconds) == (13.75, 3.5, 4)


@pytest.mark.parametrize("changed, expected", [
    ({"overlap": False}, (17.75, 7.5, 0)),  # 10 + 3 · 2.5 + 0.25
    ({"micro_batches": 3}, (33.75, 3.5, 4)),  # two more passes of 10, which hide nothing
    ({"bucket_mb": math.inf, "first_bucket_mb": math.inf}, (16.75, 6.5, 0)),  # one bucket, ready at 10
    ({"first_bucket_mb": 4.0, "bucket_mb": 4.0}, (15.25, 5, 2)),  # c and b 8 to 12.5, a to 15
])  # fmt: skip
def test_the_same_in_other_ways(changed, expected):
    step = simulate_step(THREE, seconds_by_hand, **{**BY_HAND, **changed})
    assert (step.seconds, step.exposed_seconds, step.hidden_seconds) == expected


def test_a_tied_weight_is_ready_when_backward_reaches_the_first_layer_that_uses_it():
    tied = [Layer("embedding", (2 * MIB,), 1, 2), THREE[1], Layer("head", (), 1, 3)]
    step = simulate_step(tied, seconds_by_hand, **BY_HAND)
    assert [(bucket.parameters, bucket.ready) for bucket in step.buckets] == [((1,), 8), ((0,), 10)]


def test_a_bucket_that_is_ready_late_holds_up_those_behind_it():
    step = simulate_step(THREE, seconds_by_hand, **BY_HAND, assignment=[[0], [2], [1]])
    assert [bucket.start for bucket in step.buckets] == [10, 12.5, 15]
    assert (step.exposed_seconds, step.hidden_seconds) == (7.5, 0)


def test_spans_are_the_step():
    step = simulate_step(THREE[1:], seconds_by_hand, **BY_HAND)
    assert [(span.kind, span.label, span.start, span.end) for span in step.spans] == [
        ("compute", "forward b", 0, 1), ("compute", "forward c", 1, 2), ("compute", "backward c", 2, 5),
        ("compute", "backward b", 5, 7), ("idle", "wait", 7, 10), ("optimizer state", "optimizer", 10, 10.25),
        ("communication", "bucket 0", 5, 7.5), ("communication", "bucket 1", 7.5, 10),
    ]  # fmt: skip


@given(layers, costs, settings)
def test_spans_hide_and_expose_as_much_as_the_step(of, cost, given):
    step = simulate_step(of, reduce_seconds(cost), **given)
    assert timeline.exposed_seconds(step.spans) == {0: pytest.approx(step.exposed_seconds, abs=1e-9)}
    assert timeline.hidden_seconds(step.spans) == {0: pytest.approx(step.hidden_seconds, abs=1e-9)}


def test_without_parameters_or_other_ranks_nothing_is_exposed():
    for of, free in (([Layer("a", (), 1, 2)], seconds_by_hand), (THREE, lambda size: 0)):
        step = simulate_step(of, free, **BY_HAND)
        assert step.seconds == work(of, {**BY_HAND, "micro_batches": 1})
        assert "wait" not in [span.label for span in step.spans]


# --- what always holds ---


@given(layers, costs, settings)
def test_a_step_takes_no_less_than_its_parts_and_no_more_than_their_sum(of, cost, given):
    step = simulate_step(of, reduce_seconds(cost), **given)
    compute, total = work(of, given), communication(step)
    assert max(compute, total) * (1 - 1e-9) <= step.seconds <= (compute + total) * (1 + 1e-9)
    assert step.exposed_seconds + step.hidden_seconds == pytest.approx(total, abs=1e-9)
    assert step.seconds == pytest.approx(compute + step.exposed_seconds)
    assert given["overlap"] or step.hidden_seconds == pytest.approx(0, abs=1e-9)


@given(layers, costs, settings)
def test_buckets_hold_everything_once_and_run_one_after_another(of, cost, given):
    step, sizes = simulate_step(of, reduce_seconds(cost), **given), []
    for layer in of:
        sizes.extend(layer.parameter_bytes)
    limits = buckets.limits(given["bucket_mb"], given["first_bucket_mb"])
    assert [list(bucket.parameters) for bucket in step.buckets] == buckets.assign(sizes, *limits)
    before = 0.0 if given["overlap"] else step.backward_end
    for bucket in step.buckets:
        assert bucket.bytes == sum(sizes[index] for index in bucket.parameters)
        assert bucket.start == max(bucket.ready, before)
        assert bucket.end - bucket.start == pytest.approx(reduce_seconds(cost)(bucket.bytes), abs=1e-9)
        before = bucket.end


@given(layers, costs, settings, st.floats(1, 10))
def test_a_faster_link_slows_nothing_down_and_overlap_neither(of, cost, given, factor):
    latency, rate = cost
    step = simulate_step(of, reduce_seconds(cost), **given)
    faster = simulate_step(of, reduce_seconds((latency, rate * factor)), **given)
    overlapped = simulate_step(of, reduce_seconds(cost), **{**given, "overlap": True})
    for better in (faster, overlapped):
        assert better.seconds <= step.seconds + 1e-9
        assert better.exposed_seconds <= step.exposed_seconds + 1e-9


@given(layers, costs, settings)
def test_all_but_the_last_micro_batch_hide_nothing(of, cost, given):
    once = simulate_step(of, reduce_seconds(cost), **{**given, "micro_batches": 1})
    step = simulate_step(of, reduce_seconds(cost), **given)
    assert step.exposed_seconds == pytest.approx(once.exposed_seconds, abs=1e-9)


# --- arguments ---


def test_what_can_be_read_only_once_is_read_once():
    layers = (Layer(each.name, iter(each.parameter_bytes), each.forward_seconds, each.backward_seconds)
              for each in THREE)  # fmt: skip
    assignment = (iter(bucket) for bucket in [[2.0], [1, 0]])
    step = simulate_step(layers, seconds_by_hand, **BY_HAND, assignment=assignment)
    assert step == simulate_step(THREE, seconds_by_hand, **BY_HAND, assignment=[[2], [1, 0]])
    assert [bucket.parameters for bucket in step.buckets] == [(2,), (1, 0)]


@pytest.mark.parametrize("wrong, sentence", [
    ({"layers": []}, "layers=[]: expected at least one layer"),
    ({"bucket_mb": 0}, "bucket_mb=0: expected a number above 0"),
    ({"overlap": 1}, "overlap=1: expected True or False"),
    ({"micro_batches": 0}, "micro_batches=0: expected a positive whole number"),
    ({"optimizer_seconds": -1}, "optimizer_seconds=-1: expected a number, 0 or more"),
    ({"reduce_seconds": lambda size: -size}, "reduce_seconds=-2097152: expected a number, 0 or more"),
    ({"reduce_seconds": 0.1}, "reduce_seconds=0.1: expected a function from bytes to seconds"),
    ({"assignment": [[0, 1]]}, "assignment=[[0, 1]]: expected each of 0 to 2 once, and no empty bucket"),
    ({"assignment": [[2, 1, 0], []]},
     "assignment=[[2, 1, 0], []]: expected each of 0 to 2 once, and no empty bucket"),
    ({"assignment": [["0"], [1, 2]]},
     "assignment=[[None], [1, 2]]: expected each of 0 to 2 once, and no empty bucket"),
    ({"assignment": [2, 1, 0]}, "assignment=[2, 1, 0]: expected a list of indices for each bucket"),
])  # fmt: skip
def test_a_wrong_argument_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        simulate_step(**{"layers": THREE, "reduce_seconds": seconds_by_hand, **BY_HAND, **wrong})
    assert str(caught.value) == sentence


@pytest.mark.parametrize("wrong, sentence", [
    ((("4",), 1, 1), "parameter_bytes='4': expected a whole number, 0 or more"),
    ((4, 1, 1), "parameter_bytes=4: expected a number for each parameter, such as (4,)"),
    (("4", 1, 1), "parameter_bytes='4': expected a number for each parameter, such as (4,)"),
    (((4,), -1, 1), "forward_seconds=-1: expected a number, 0 or more"),
    (((4,), 1, math.inf), "backward_seconds=inf: expected a number, 0 or more"),
])  # fmt: skip
def test_a_wrong_layer_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Layer("layer", *wrong)
    assert str(caught.value) == sentence
