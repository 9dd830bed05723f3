"""Steps of many ranks: the formulas against a simulation of each message, and against the cost model."""

import heapq
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cost_model import all_reduce_seconds
from course_lib.simulator import Layer, Link, channel_end, simulate_cluster, simulate_step

MIB = 2**20
LAYERS = [Layer("a", (MIB,), 0.01, 0.02), Layer("b", (2 * MIB, MIB), 0.02, 0.05), Layer("c", (), 0.01, 0.01)]
LINK = Link(1e-4, 50e6)

seconds = st.floats(0, 0.1)
sizes = st.lists(st.integers(0, 3 * MIB), max_size=3).map(tuple)
layers = st.lists(st.builds(Layer, st.just("layer"), sizes, seconds, seconds), min_size=1, max_size=5)
links = st.builds(Link, st.floats(0, 0.01), st.floats(1e6, 1e9))
worlds = st.integers(1, 7)


@st.composite
def clusters(draw):
    ranks = draw(worlds)
    return ranks, draw(links), {
        "slow_link": draw(st.none() | links), "slow_sender": draw(st.integers(0, ranks - 1)),
        "jitter": draw(st.just(0.0) | st.floats(0, 1)),
        "slow_ranks": draw(st.dictionaries(st.integers(0, ranks - 1), st.floats(0.1, 5), max_size=2)),
        "steps": draw(st.integers(1, 3)), "seed": draw(st.integers(0, 9)),
    }  # fmt: skip


plans = st.fixed_dictionaries({
    "bucket_mb": st.floats(0.1, 4), "first_bucket_mb": st.floats(0.1, 4), "overlap": st.booleans(),
    "micro_batches": st.integers(1, 3), "optimizer_seconds": seconds,
})  # fmt: skip


# --- each message by itself ---


class Messages:
    """The rings of one step: ranks that enter rounds, and messages that arrive, in the order of time.

    A rank knows nothing but its own round.  A message moves when both of its ranks have entered the round.
    """

    def __init__(self, ready, sizes, link_of):
        self.ready, self.sizes, self.link_of = ready, sizes, link_of  # ready: rank by rank, bucket by bucket
        self.ranks = len(ready)
        self.ends = [list(each) for each in ready]
        self.entered, self.arrived, self.events = Counter(), Counter(), []

    def run(self):
        for rank in range(self.ranks):
            self.begin(0, rank, 0.0)
        while self.events:
            now, what, *where = heapq.heappop(self.events)
            getattr(self, what)(now, *where)
        return self.ends

    def begin(self, bucket, rank, free):
        if bucket < len(self.sizes):
            heapq.heappush(self.events, (max(free, self.ready[rank][bucket]), "enter", bucket, 0, rank))

    def enter(self, now, bucket, turn, rank):
        if turn == 2 * (self.ranks - 1):
            self.ends[rank][bucket] = now
            self.begin(bucket + 1, rank, now)
            return
        for sender in (rank, (rank - 1) % self.ranks):
            self.entered[bucket, turn, sender] += 1
            if self.entered[bucket, turn, sender] == 2:
                link = self.link_of(sender)
                takes = link.latency + self.sizes[bucket] / self.ranks / link.bandwidth
                heapq.heappush(self.events, (now + takes, "arrive", bucket, turn, sender))

    def arrive(self, now, bucket, turn, sender):
        for rank in (sender, (sender + 1) % self.ranks):
            self.arrived[bucket, turn, rank] += 1
            if self.arrived[bucket, turn, rank] == 2:
                heapq.heappush(self.events, (now, "enter", bucket, turn + 1, rank))


def by_messages(of, ranks, link, plan, slow_link, slow_sender, factors):
    """When each rank has done each step."""
    alone = simulate_step(of, lambda size: 0, **plan)
    begins, ends = ranks * [0.0], []
    for step in factors:
        paces = list(zip(begins, step, strict=True))
        ready = [[begin + factor * bucket.start for bucket in alone.buckets] for begin, factor in paces]
        reduced = Messages(ready, [bucket.bytes for bucket in alone.buckets],
                           lambda sender: slow_link if slow_link and sender == slow_sender else link).run()
        begins = [max([begin + factor * alone.backward_end, *own]) + factor * plan["optimizer_seconds"]
                  for (begin, factor), own in zip(paces, reduced, strict=True)]  # fmt: skip
        ends.append(begins)
    return ends


def factors_of(ranks, given):
    """As the docstring says."""
    usual = [given["slow_ranks"].get(rank, 1) for rank in range(ranks)]
    draws = [np.random.default_rng([given["seed"], step]).standard_normal(ranks)
             for step in range(given["steps"])]  # fmt: skip
    return [usual * np.exp(given["jitter"] * each) for each in draws]


@settings(max_examples=150, deadline=None)
@given(layers, clusters(), plans)
def test_it_is_what_single_messages_do(of, cluster, plan):
    ranks, link, given = cluster
    simulated = simulate_cluster(of, ranks, link, **given, **plan)
    expected = by_messages(of, ranks, link, plan, given["slow_link"], given["slow_sender"],
                           factors_of(ranks, given))  # fmt: skip
    assert [list(step.ends) for step in simulated.steps] == [
        pytest.approx(step, rel=1e-9, abs=1e-12) for step in expected]  # fmt: skip


# --- ranks that are alike ---


@settings(deadline=None)
@given(layers, st.integers(1, 4096), links, plans)
def test_ranks_that_are_alike_take_the_step_of_one(of, ranks, link, plan):
    cluster = simulate_cluster(of, ranks, link, steps=2, **plan)
    step = simulate_step(
        of, lambda size: all_reduce_seconds("ring", size, ranks, link.latency, link.bandwidth), **plan)
    assert [each.seconds for each in cluster.steps] == 2 * [pytest.approx(step.seconds)]
    assert cluster.exposed_seconds == pytest.approx(step.exposed_seconds, abs=1e-9)
    assert cluster.idle_seconds == pytest.approx(0, abs=1e-9)
    assert not cluster.paced_by


@pytest.mark.parametrize("ranks", [2, 3, 8, 100])
def test_a_slow_link_costs_what_the_cost_model_says(ranks):
    one = [Layer("a", (4 * MIB,), 0.0, 0.0)]
    cluster = simulate_cluster(one, ranks, LINK, slow_link=Link(1e-4, 5e6), slow_sender=1)
    rates = [5e6, *(ranks - 1) * [50e6]]
    assert cluster.seconds == pytest.approx(all_reduce_seconds("ring", 4 * MIB, ranks, 1e-4, rates))


@given(layers, st.integers(2, 64), links, plans)
def test_the_end_of_a_channel_is_that_of_the_step(of, ranks, link, plan):
    step = simulate_step(of, lambda size: ranks * link.seconds(size), **plan)
    if step.buckets:
        ready = np.array([bucket.ready if plan["overlap"] else step.backward_end for bucket in step.buckets])
        takes = np.array([[factor * ranks * link.seconds(bucket.bytes) for bucket in step.buckets]
                          for factor in (1, 2)])  # fmt: skip
        end, later = channel_end(ready, takes)
        assert end == pytest.approx(step.buckets[-1].end)
        assert end <= later


# --- who waits for whom ---


def test_all_wait_for_a_rank_that_is_always_late():
    cluster = simulate_cluster(LAYERS, 6, LINK, slow_ranks={4: 3.0}, steps=2, bucket_mb=100,
                               first_bucket_mb=100)  # fmt: skip
    for step in cluster.steps:
        assert step.paced_by == (4,)
        late = step.backward_ends[4] - step.backward_ends[0]
        assert step.waited == pytest.approx([late, late, late, late, 0, late])
    assert cluster.paced_by == {4: 2}


def test_what_a_late_rank_costs_depends_on_what_the_others_wait_for_anyway():
    def extra(link):
        usual, late = (simulate_cluster(LAYERS, 6, link, slow_ranks={4: factor}, bucket_mb=1)
                       for factor in (1.0, 1.5))  # fmt: skip
        return late.seconds - usual.seconds

    assert extra(Link(0, 1e12)) == pytest.approx(0.5 * 0.12)  # of all that it computes
    assert extra(Link(0, 1e6)) == pytest.approx(0.5 * 0.10)  # until the first bucket: then links are slower


def test_far_from_a_slow_link_a_rank_may_be_late():
    one = [Layer("a", (8 * MIB,), 0.0, 1.0)]
    slow = {"slow_link": Link(0, 25e6), "slow_sender": 0}
    usual = simulate_cluster(one, 8, Link(0, 50e6), **slow).seconds
    slack = MIB / 25e6 - MIB / 50e6  # of a rank's distance to the link
    for rank, away in ((0, 0), (1, 0), (2, 1), (4, 3), (5, 3), (7, 1)):
        late = {"slow_ranks": {rank: 1 + 4 * slack}}
        assert simulate_cluster(one, 8, Link(0, 50e6), **slow, **late).seconds == pytest.approx(
            usual + (4 - away) * slack)  # fmt: skip


def test_a_fast_link_among_others_changes_nothing():
    usual = simulate_cluster(LAYERS, 5, LINK, jitter=0.3)
    fast = simulate_cluster(LAYERS, 5, LINK, jitter=0.3, slow_link=Link(0, 1e12), slow_sender=3)
    assert (usual.steps[0].ends == fast.steps[0].ends).all()


# --- chance ---


def test_a_seed_gives_the_same_steps_again_and_a_rank_the_same_pace_among_more_ranks():
    def factors(ranks, seed):
        cluster = simulate_cluster([Layer("a", (), 0.0, 1.0)], ranks, LINK, jitter=0.2, steps=3, seed=seed)
        return np.array([step.backward_ends - step.begins for step in cluster.steps])

    assert (factors(500, 0) == factors(500, 0)).all() and (factors(500, 0) != factors(500, 1)).all()
    assert factors(500, 0) == pytest.approx(factors(4000, 0)[:, :500])
    logs = np.log(factors(4000, 0))
    assert abs(np.median(logs)) < 0.01 and logs.std() == pytest.approx(0.2, rel=0.03)
    assert abs(np.corrcoef(logs)[0, 1]) < 0.05  # steps are drawn apart


def test_the_latest_of_more_ranks_is_later():
    times = [simulate_cluster(LAYERS, ranks, LINK, jitter=0.1, steps=5).idle_seconds
             for ranks in (1, 4, 16, 64, 256)]  # fmt: skip
    assert times[0] == 0 and all(few < many for few, many in pairwise(times))


def test_times_of_the_cluster_are_medians_and_add_up():
    cluster = simulate_cluster(LAYERS, 16, LINK, jitter=0.4, steps=3, optimizer_seconds=0.01)
    assert cluster.seconds == sorted(step.seconds for step in cluster.steps)[1]
    for step in cluster.steps:
        waits = step.exposed_seconds + step.idle_seconds
        assert waits == pytest.approx(step.exposed.mean())
    assert sum(step.seconds for step in cluster.steps) == pytest.approx(cluster.steps[-1].ends.max())


# --- arguments ---


@pytest.mark.parametrize("wrong, sentence", [
    ({"ranks": 0}, "ranks=0: expected a positive whole number"),
    ({"ranks": 4097}, "ranks=4097: expected a number, 1 or more, 4096 at most"),
    ({"slow_sender": 4}, "slow_sender=4: expected a number, 0 or more, 3 at most"),
    ({"slow_ranks": {4: 2.0}}, "slow_ranks=4: expected a number, 0 or more, 3 at most"),
    ({"slow_ranks": {1: 0}}, "slow_ranks=0: expected a number above 0"),
    ({"slow_ranks": [1]}, "slow_ranks=[1]: expected a dict, such as {3: 1.5}"),
    ({"jitter": -0.1}, "jitter=-0.1: expected a number, 0 or more, 2.0 at most"),
    ({"steps": 0}, "steps=0: expected a positive whole number"),
    ({"seed": 0.5}, "seed=0.5: expected a whole number, 0 or more"),
    ({"layers": []}, "layers=[]: expected at least one layer"),
    ({"optimizer_seconds": -1}, "optimizer_seconds=-1: expected a number, 0 or more"),
])  # fmt: skip
def test_a_wrong_argument_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        simulate_cluster(**{"layers": LAYERS, "ranks": 4, "link": LINK, **wrong})
    assert str(caught.value) == sentence


@pytest.mark.parametrize("wrong, sentence", [
    ((-1e-6, 1e9), "latency=-1e-06: expected a number, 0 or more"),
    ((1e-6, 0), "bandwidth=0: expected a number above 0"),
])  # fmt: skip
def test_a_wrong_link_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Link(*wrong)
    assert str(caught.value) == sentence
