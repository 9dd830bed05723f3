"""The cost model: published numbers, exact bytes, what a fit recovers, and what is refused."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import all_reduce, cost_model, ranks
from course_lib.cost_model import (
    ALGORITHMS,
    all_reduce_seconds,
    bus_bandwidth,
    crossover,
    fit,
    terms,
    traffic,
)

MIB, GIB = 2**20, 2**30
GPT_2_SMALL = 248_879_616  # bytes in bf16

worlds = st.integers(2, 4096)
sizes = st.integers(1, 2**40)
latencies = st.floats(1e-7, 1e-2)
bandwidths = st.floats(1e6, 1e12)
algorithms = st.sampled_from(ALGORITHMS)


def is_power_of_two(number):
    return number & (number - 1) == 0


# --- seconds ---


@pytest.mark.parametrize(("algorithm", "microseconds"), [
    ("ring", 1037.9), ("halving-doubling", 997.9), ("recursive-doubling", 1674.2), ("tree", 3348.4),
    ("star", 7812.9)])
def test_gpt_2_small_on_8_gpus(algorithm, microseconds):
    seconds = all_reduce_seconds(algorithm, GPT_2_SMALL, 8, 5e-6, 450e9)
    assert 1e6 * seconds == pytest.approx(microseconds, abs=0.05)


FORMULAS = {  # of bytes, ranks, latency and seconds per byte, as they are published
    "star": lambda n, p, a, b: 2 * (p - 1) * (a + n * b),
    "tree": lambda n, p, a, b: 2 * math.ceil(math.log2(p)) * (a + n * b),
    "recursive-doubling": lambda n, p, a, b: math.log2(p) * (a + n * b),
    "halving-doubling": lambda n, p, a, b: 2 * math.log2(p) * a + 2 * n * (p - 1) / p * b,
    "unchunked-ring": lambda n, p, a, b: (p - 1) * (a + n * b),
    "ring": lambda n, p, a, b: 2 * (p - 1) * a + 2 * n * (p - 1) / p * b,
}
FORMULAS_WHERE_P_IS_NO_POWER_OF_TWO = {
    **FORMULAS,
    "recursive-doubling": lambda n, p, a, b: (math.floor(math.log2(p)) + 2) * (a + n * b),
    "halving-doubling": lambda n, p, a, b: (
        (2 * math.floor(math.log2(p)) + 2) * a + (2 * (p - 1) / p + 2) * n * b),
}


@settings(deadline=None)
@given(algorithms, sizes, worlds | st.integers(1, 12).map(lambda power: 2**power), latencies, bandwidths)
def test_seconds_are_the_published_formulas(algorithm, size, world, latency, bandwidth):
    formulas = FORMULAS if is_power_of_two(world) else FORMULAS_WHERE_P_IS_NO_POWER_OF_TWO
    expected = formulas[algorithm](size, world, latency, 1 / bandwidth)
    assert all_reduce_seconds(algorithm, size, world, latency, bandwidth) == pytest.approx(expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_rank_alone_waits_for_nobody(algorithm):
    assert all_reduce_seconds(algorithm, GIB, 1, 5e-6, 450e9) == 0
    assert all_reduce_seconds(algorithm, GIB, 1, 5e-6, [450e9]) == 0
    assert terms(algorithm, 1) == (0, 0)
    assert traffic(algorithm, GIB, 1).links == {}


def test_the_two_factors_are_exact():
    assert terms("ring", 4) == (6, 1.5)
    assert terms("halving-doubling", 8) == (6, 1.75) == (6, terms("ring", 8).tensors)
    assert terms("star", 4096) == (8190, 8190)
    assert terms("tree", 5) == (6, 6)


@pytest.mark.parametrize(("world", "seconds"), [(2, 1.0), (4, 1.5), (8, 1.75), (4096, 2 * 4095 / 4096)])
def test_the_limit_stays_below_two_tensors(world, seconds):
    assert cost_model.limit_seconds(10**8, world, 1e8) == pytest.approx(seconds)
    assert cost_model.limit_seconds(10**8, 1, 1e8) == 0


@settings(deadline=None)
@given(algorithms, sizes, worlds, latencies, bandwidths)
def test_nothing_beats_the_limit(algorithm, size, world, latency, bandwidth):
    seconds = all_reduce_seconds(algorithm, size, world, latency, bandwidth)
    assert seconds >= cost_model.limit_seconds(size, world, bandwidth) * (1 - 1e-12)


def test_an_empty_tensor_costs_its_messages():
    assert all_reduce_seconds("ring", 0, 4, 1e-3, 1e8) == pytest.approx(6e-3)


# --- slow links ---


@settings(max_examples=50, deadline=None)
@given(algorithms, sizes, st.integers(1, 300), latencies, bandwidths)
def test_links_of_one_rate_are_as_good_as_one_number(algorithm, size, world, latency, bandwidth):
    seconds = all_reduce_seconds(algorithm, size, world, latency, world * [bandwidth])
    assert seconds == pytest.approx(all_reduce_seconds(algorithm, size, world, latency, bandwidth))


@pytest.mark.parametrize("algorithm", ["ring", "unchunked-ring", "halving-doubling"])
@pytest.mark.parametrize("slow", range(4))
def test_a_ring_goes_at_the_slowest_links_pace(algorithm, slow):
    rates = [5e7] * 4
    rates[slow] = 1e7
    expected = all_reduce_seconds(algorithm, 8 * MIB, 4, 1e-3, 1e7)
    assert all_reduce_seconds(algorithm, 8 * MIB, 4, 1e-3, np.array(rates)) == pytest.approx(expected)


def test_a_star_pays_for_one_slow_link_twice_and_for_a_slow_root_always():
    """Tensors come in one after another, and the sums go out at once."""
    seconds = lambda rates: all_reduce_seconds("star", 10**8, 4, 0, rates)  # noqa: E731
    assert seconds([1e8, 1e8, 1e8, 1e7]) == pytest.approx((1 + 1 + 10) + 10)
    assert seconds([1e8, 1e8, 1e8, 5e7]) == pytest.approx((1 + 1 + 2) + 3)
    assert seconds([1e7, 1e8, 1e8, 1e8]) == pytest.approx(6 * 10)


def test_a_slow_leaf_of_the_tree_slows_one_level():
    """Rank 3 gives its tensor to rank 2, at the level at which rank 1 gives its own to rank 0."""
    assert all_reduce_seconds("tree", 10**8, 4, 0, [1e8, 1e8, 1e8, 1e7]) == pytest.approx(2 * (10 + 1))
    assert all_reduce_seconds("tree", 10**8, 4, 0, [1e8, 1e8, 1e7, 1e8]) == pytest.approx(2 * (10 + 10))


def test_a_folded_rank_slows_the_messages_of_the_fold():
    """Of 3 ranks, 0 and 1 fold, then 1 and 2 exchange."""
    seconds = lambda rates: all_reduce_seconds("recursive-doubling", 10**8, 3, 0, rates)  # noqa: E731
    assert seconds([1e7, 1e8, 1e8]) == pytest.approx(2 * 10 + 1)
    assert seconds([1e8, 1e7, 1e8]) == pytest.approx(2 * 10 + 10)
    assert seconds([1e8, 1e8, 1e7]) == pytest.approx(2 + 10)


# --- who wins ---


@settings(deadline=None)
@given(st.integers(2, 12), sizes, latencies, bandwidths)
def test_halving_doubling_is_never_slower_than_the_ring_where_p_is_a_power_of_two(power, size, latency, rate):
    both = [all_reduce_seconds(name, size, 2**power, latency, rate) for name in ("halving-doubling", "ring")]
    assert both[0] < both[1] or both == pytest.approx([both[1]] * 2)
    assert crossover("halving-doubling", "ring", 2**power, latency, rate) is None


@pytest.mark.parametrize(("world", "tensors"), [(3, 0), (5, 1), (6, 2), (7, 3), (12, 7), (1000, 989)])
def test_where_p_is_no_power_of_two_the_ring_wins_from_some_size_on(world, tensors):
    """2 (p - 2 - lg p) messages less, and 2 tensors more."""
    size = crossover("halving-doubling", "ring", world, 1e-5, 1e9)
    assert size == (pytest.approx(tensors * 1e-5 * 1e9) if tensors else None)


@settings(deadline=None)
@given(algorithms, algorithms, worlds, latencies, bandwidths)
def test_at_the_crossover_both_take_equally_long_and_the_order_changes(one, other, world, latency, bandwidth):
    size = crossover(one, other, world, latency, bandwidth)
    gap = lambda n: all_reduce_seconds(one, int(n), world, latency, bandwidth) - all_reduce_seconds(  # noqa: E731
        other, int(n), world, latency, bandwidth)
    if size is None:
        assert gap(0) * gap(2**50) >= -1e-9
    elif size > 1000:
        assert abs(gap(size)) <= 2e-3 * all_reduce_seconds(one, int(size), world, latency, bandwidth)
        assert gap(size / 2) * gap(size * 2) < 0
    assert crossover(other, one, world, latency, bandwidth) == size


def test_without_latency_nothing_crosses():
    assert crossover("tree", "ring", 8, 0, 1e9) is None


# --- bytes ---


def of_rank(moved, rank):
    """What a rank sends, receiver -> bytes, and what it receives, sender -> bytes."""
    sent = {receiver: count for (sender, receiver), count in moved.links.items() if sender == rank}
    received = {sender: count for (sender, receiver), count in moved.links.items() if receiver == rank}
    return sent, received


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([1, 2, 4, 8]))
def test_what_is_sent_is_received_and_width_counts(elements, world, width):
    for algorithm in (*ALGORITHMS, "reduce-scatter", "all-gather"):
        moved = traffic(algorithm, elements, world, width)
        in_elements = sum(traffic(algorithm, elements, world, 1).sent)
        assert sum(moved.sent) == sum(moved.received) == width * in_elements
        assert len(moved.sent) == len(moved.received) == world
        assert all(count > 0 and sender != receiver for (sender, receiver), count in moved.links.items())
        for rank in range(world):
            sent, received = of_rank(moved, rank)
            assert (sum(sent.values()), sum(received.values())) == (moved.sent[rank], moved.received[rank])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 64))
def test_no_all_reduce_can_send_less_than_the_ring(elements, world):
    """Each element needs p-1 additions of what another rank has, and p-1 ranks that get the sum."""
    for algorithm in ALGORITHMS:
        assert sum(traffic(algorithm, elements, world, 1).sent) >= 2 * (world - 1) * elements
    assert sum(traffic("ring", elements, world, 1).sent) == 2 * (world - 1) * elements


@settings(deadline=None)
@given(st.integers(1, 1000), st.integers(2, 64))
def test_the_rings_links_carry_the_same_and_the_stars_root_carries_all(chunk, world):
    size = chunk * world
    ring, star, unchunked = (traffic(name, size, world, 1) for name in ("ring", "star", "unchunked-ring"))
    assert set(ring.sent) == set(ring.received) == {2 * (world - 1) * chunk}
    assert (star.sent[0], star.received[0]) == 2 * ((world - 1) * size,)
    assert star.busiest_direction == (world - 1) * size
    assert set(unchunked.sent) == set(unchunked.received) == {(world - 1) * size}
    assert 2 * unchunked.busiest_direction == world * ring.busiest_direction


def test_the_busiest_direction_may_be_either():
    moved = cost_model.Traffic(4, {(0, 2): 5, (1, 2): 6, (3, 2): 7, (2, 3): 1})
    assert (moved.sent, moved.received) == ((5, 6, 1, 7), (0, 0, 18, 1))
    assert moved.busiest_direction == 18
    turned = {(receiver, sender): count for (sender, receiver), count in moved.links.items()}
    assert cost_model.Traffic(4, turned).busiest_direction == 18


@settings(deadline=None)
@given(st.integers(0, 10**5), st.integers(1, 40))
def test_the_ring_is_its_two_halves(elements, world):
    first, second, both = (
        Counter(traffic(name, elements, world).links) for name in ("reduce-scatter", "all-gather", "ring"))
    assert first + second == both


CASES = [(0, torch.int8), (3, torch.float64), (1001, torch.bfloat16)]


def all_reduces():
    """What each of the library's functions sends from this rank and receives, by the other rank."""
    counted = {}
    for name in ("ring", "star", "unchunked_ring", "reduce_scatter", "all_gather"):
        for elements, dtype in CASES:
            tensor = torch.ones(elements, dtype=dtype)
            with ranks.traffic() as moved:
                getattr(all_reduce, name)(tensor)
            counted[name.replace("_", "-"), elements, dtype.itemsize] = dict(moved.sent), dict(moved.received)
    return counted


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5])
def test_the_librarys_all_reduces_move_exactly_these_bytes(world):
    for rank, counted in enumerate(ranks.run(all_reduces, world)):
        assert len(counted) == 15
        for (algorithm, elements, width), measured in counted.items():
            expected = traffic(algorithm, elements, world, width)
            assert measured == of_rank(expected, rank), (algorithm, rank)


class Simulation:
    """Ranks whose chunks hold the ranks whose values are in them, and that count what they send."""

    def __init__(self, ranks, elements, chunks):
        parts = torch.arange(elements).tensor_split(chunks)
        self.lengths = [len(part) for part in parts]
        self.held = [[{rank} for _ in parts] for rank in range(ranks)]
        self.links, self.rounds = Counter(), 0

    def exchange(self, messages, add):
        """Messages (sender, receiver, chunks) at the same time, as many from each rank as one."""
        assert max(Counter(sender for sender, *_ in messages).values()) == 1
        assert max(Counter(receiver for _, receiver, _ in messages).values()) == 1
        before = [list(map(frozenset, chunks)) for chunks in self.held]
        for sender, receiver, chunks in messages:
            for chunk in chunks:
                arriving, present = before[sender][chunk], self.held[receiver][chunk]
                assert not add or not arriving & present  # added twice
                self.held[receiver][chunk] = arriving | present if add else set(arriving)
            self.links[sender, receiver] += sum(self.lengths[chunk] for chunk in chunks)
        self.rounds += 1

    def result(self):
        everybody = set(range(len(self.held)))
        assert all(chunk == everybody for chunks in self.held for chunk in chunks)
        return {link: count for link, count in self.links.items() if count}, self.rounds


def simulate_tree(world, elements):
    simulation, levels = Simulation(world, elements, 1), [2**k for k in range(12) if 2**k < world]
    for level in levels:
        senders = [rank for rank in range(world) if rank % (2 * level) == level]
        simulation.exchange([(rank, rank - level, [0]) for rank in senders], add=True)
    for level in reversed(levels):
        receivers = [rank for rank in range(world) if rank % (2 * level) == level]
        simulation.exchange([(rank - level, rank, [0]) for rank in receivers], add=False)
    return simulation.result()


def simulate_in_pairs(world, elements, halving):
    """As in MPICH: the first ranks fold into their right neighbors until a power of two is left."""
    power = 2 ** int(math.log2(world))
    folded = [2 * pair for pair in range(world - power)]
    staying = [rank for rank in range(world) if rank not in folded]
    simulation = Simulation(world, elements, power)
    everything = list(range(power))
    if folded:
        simulation.exchange([(rank, rank + 1, everything) for rank in folded], add=True)
    if halving:
        halve_and_double(simulation, staying)
    else:
        for distance in (2**k for k in range(int(math.log2(power)))):
            pairs = [(rank, staying[place ^ distance], everything) for place, rank in enumerate(staying)]
            simulation.exchange(pairs, add=True)
    if folded:
        simulation.exchange([(rank + 1, rank, everything) for rank in folded], add=False)
    return simulation.result()


def halve_and_double(simulation, staying):
    kept, steps, distance = [list(range(len(staying))) for _ in staying], [], len(staying) // 2
    while distance:
        halves = [(chunks[: len(chunks) // 2], chunks[len(chunks) // 2 :]) for chunks in kept]
        upper = [bool(place & distance) for place in range(len(staying))]
        partners = [staying[place ^ distance] for place in range(len(staying))]
        sent = [halves[place][not upper[place]] for place in range(len(staying))]
        simulation.exchange(list(zip(staying, partners, sent, strict=True)), add=True)
        kept = [halves[place][upper[place]] for place in range(len(staying))]
        steps.append((partners, kept))
        distance //= 2
    for partners, chunks in reversed(steps):
        simulation.exchange(list(zip(staying, partners, chunks, strict=True)), add=False)


@pytest.mark.parametrize("world", range(2, 18))
@pytest.mark.parametrize("elements", [0, 1, 7, 48, 1001])
def test_bytes_and_messages_are_those_of_an_all_reduce_that_works(world, elements):
    simulated = {
        "tree": simulate_tree(world, elements),
        "recursive-doubling": simulate_in_pairs(world, elements, halving=False),
        "halving-doubling": simulate_in_pairs(world, elements, halving=True),
    }
    for algorithm, (links, rounds) in simulated.items():
        assert traffic(algorithm, elements, world, 1).links == links
        assert terms(algorithm, world).messages == rounds


# --- bus bandwidth ---

# stas00/ml-engineering, network/benchmarks: 8 A100 with NVLink 3, bytes, microseconds, GB/s.
EIGHT_A100 = [
    (32 * 2**10, 43.83, 1.31), (128 * 2**10, 51.76, 4.43), (MIB, 101.9, 18.00), (4 * MIB, 101.5, 72.33),
    (16 * MIB, 276.6, 106.16), (64 * MIB, 684.6, 171.54), (256 * MIB, 2420.6, 194.07), (GIB, 8203.9, 229.04),
    (4 * GIB, 32136, 233.88), (16 * GIB, 127997, 234.89)]  # fmt: skip


@pytest.mark.parametrize(("size", "microseconds", "printed"), EIGHT_A100)
def test_the_bus_bandwidths_of_a_published_table(size, microseconds, printed):
    gigabytes = bus_bandwidth("all-reduce", size, 1e-6 * microseconds, 8) / 1e9
    assert gigabytes == pytest.approx(printed, rel=1e-3, abs=0.005)  # times are rounded as well


@pytest.mark.parametrize(("collective", "factor"), [
    ("all-reduce", 1.75), ("reduce-scatter", 0.875), ("all-gather", 0.875), ("all-to-all", 0.875),
    ("broadcast", 1), ("reduce", 1), ("all-reduce-in-network", 7 / 9)])
def test_the_factors_of_nccl_tests(collective, factor):
    assert bus_bandwidth(collective, 10**9, 0.5, 8) == pytest.approx(factor * 2e9)


def test_there_is_a_factor_for_each_collective():
    assert len(cost_model.COLLECTIVES) == 7
    assert bus_bandwidth("all-reduce", 10**9, 0.5, 1) == 0  # a rank alone sends nothing


@settings(deadline=None)
@given(sizes, worlds, bandwidths)
def test_a_ring_without_latency_shows_the_links_own_bandwidth(size, world, bandwidth):
    seconds = all_reduce_seconds("ring", size, world, 0, bandwidth)
    assert bus_bandwidth("all-reduce", size, seconds, world) == pytest.approx(bandwidth)


# --- fit ---


@st.composite
def series(draw):
    """Latency and bandwidth, and points of three sizes or more where each counts for 1% or more."""
    algorithm, world, latency = draw(algorithms), draw(worlds), draw(latencies)
    messages, tensors = terms(algorithm, world)
    # The size whose bytes take as long as its messages.
    middle = draw(st.floats(1e4, 1e9))
    bandwidth = middle * tensors / (messages * latency)
    points = [max(1, int(middle * part)) for part in draw(st.lists(
        st.floats(0.01, 100), min_size=1, max_size=20))]
    return algorithm, world, latency, bandwidth, [int(middle / 5), int(middle), int(5 * middle), *points]


@settings(deadline=None)
@given(series())
def test_without_noise_both_are_recovered(drawn):
    algorithm, world, latency, bandwidth, points = drawn
    seconds = [all_reduce_seconds(algorithm, size, world, latency, bandwidth) for size in points]
    fitted = fit(algorithm, points, seconds, world)
    assert fitted.latency == pytest.approx(latency, rel=1e-6)
    assert fitted.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert max(fitted.latency_error / latency, fitted.bandwidth_error / bandwidth) < 1e-6
    assert fitted.notes == ()


@settings(derandomize=True, max_examples=200, deadline=None)  # chance must not decide whether a test passes
@given(series(), st.floats(0.001, 0.1), st.integers(0, 2**32))
def test_with_noise_both_are_recovered_within_what_is_stated(drawn, noise, seed):
    algorithm, world, latency, bandwidth, points = drawn
    points = 4 * points
    clean = np.array([all_reduce_seconds(algorithm, size, world, latency, bandwidth) for size in points])
    errors = np.random.default_rng(seed).uniform(-noise, noise, len(points))
    fitted = fit(algorithm, points, clean * (1 + errors), world)
    assert abs(fitted.latency - latency) <= 4.5 * fitted.latency_error
    assert abs(fitted.bandwidth - bandwidth) <= 4.5 * fitted.bandwidth_error


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_the_errors_are_standard_errors(noise):
    """Two of three fits are off by less than one of them, 19 of 20 by less than two; and none is biased."""
    draw, points = np.random.default_rng(0), [MIB * part for part in (1, 1, 2, 4, 8, 8, 16, 32, 32, 64)]
    clean = np.array([all_reduce_seconds("ring", size, 4, 5e-3, 5e7) for size in points])
    noisy = clean * (1 + noise * draw.standard_normal((1000, len(points))))
    fits = [fit("ring", points, seconds, 4) for seconds in noisy]
    off = np.array([
        [(each.latency - 5e-3) / each.latency_error, (each.bandwidth - 5e7) / each.bandwidth_error]
        for each in fits])
    # Student's t for 8 degrees of freedom; the tolerance is four standard deviations of such a count.
    assert np.mean(np.abs(off) < 1, axis=0) == pytest.approx(0.653, abs=0.06)
    assert np.mean(np.abs(off) < 2, axis=0) == pytest.approx(0.919, abs=0.035)
    assert np.abs(np.mean(off, axis=0)) == pytest.approx([0, 0], abs=0.2)


def test_small_sizes_count_as_much_as_large_ones():
    """A tenth of a second more on the largest would hide the latency altogether, were distances absolute."""
    points = [2**n for n in range(10, 28)]
    seconds = [all_reduce_seconds("ring", size, 4, 1e-3, 1e8) for size in points]
    seconds[-1] *= 1.05
    assert fit("ring", points, seconds, 4).latency == pytest.approx(1e-3, rel=0.05)


def test_points_of_several_numbers_of_ranks_make_one_fit():
    world = [2, 3, 4, 8, 8]
    points = [MIB, MIB, MIB, MIB, 8 * MIB]
    seconds = [all_reduce_seconds("ring", size, n, 1e-3, 5e7) for size, n in zip(points, world, strict=True)]
    fitted = fit("ring", points, seconds, world)
    assert (fitted.latency, fitted.bandwidth) == pytest.approx((1e-3, 5e7))


def test_the_straight_line_of_a_published_table():
    """From half a GiB up; the line through more of its rows meets 0 at 225 µs, 14 messages."""
    points, microseconds = zip(*[(size, time) for size, time, _ in EIGHT_A100[-3:]], strict=True)
    fitted = fit("ring", points, [1e-6 * time for time in microseconds], 8)
    assert 14e6 * fitted.latency == pytest.approx(225, rel=0.03)
    assert fitted.bandwidth / 1e9 == pytest.approx(235.3, rel=1e-3)


def test_one_latency_and_bandwidth_do_not_fit_that_whole_table():
    points, microseconds, _ = zip(*EIGHT_A100, strict=True)
    seconds = [1e-6 * time for time in microseconds]
    fitted = fit("ring", points, seconds, 8)
    on_line = [all_reduce_seconds("ring", size, 8, fitted.latency, fitted.bandwidth) for size in points]
    assert max(abs(time / other - 1) for time, other in zip(seconds, on_line, strict=True)) > 0.3


def test_what_dicts_and_arrays_hold_is_taken():
    seconds = {size: all_reduce_seconds("star", size, 4, 1e-3, 5e7) for size in (MIB, 2 * MIB, 4 * MIB)}
    expected = fit("star", list(seconds), list(seconds.values()), 4)
    assert fit("star", seconds.keys(), seconds.values(), 4) == expected
    assert fit("star", np.array(list(seconds)), np.array(list(seconds.values())), np.int64(4)) == expected


NO_LATENCY = "The latency can't be told from 0: smaller sizes would show it."


@pytest.mark.parametrize(("factors", "note"), [
    ((1, 1, 1, 1), NO_LATENCY), ((0.99, 1.01, 1, 1), NO_LATENCY), ((1.01, 0.98, 1.02, 1), NO_LATENCY)])
def test_a_latency_that_can_not_be_told_from_0_is_said(factors, note):
    points = [8 * MIB, 16 * MIB, 24 * MIB, 32 * MIB]
    seconds = [factor * size / 5e7 for factor, size in zip(factors, points, strict=True)]
    fitted = fit("ring", points, seconds, 2)
    assert fitted.notes == (note,)
    assert 0 <= fitted.latency <= 2 * fitted.latency_error
    assert str(fitted).endswith(f"MB/s\n{note}")


def test_a_latency_is_never_below_0_and_times_that_bend_up_are_said():
    points = [8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB]
    fitted = fit("ring", points, [0.1, 0.24, 0.55, 1.19], 2)
    assert fitted.latency == 0
    assert fitted.notes == (
        "Times grow faster than bytes: one latency and one bandwidth do not fit all points.",)
    assert fitted.bandwidth == pytest.approx(64 * MIB / 1.19, rel=0.3)
    # So that the fit can be put into the model in any case.
    assert all_reduce_seconds("ring", MIB, 2, fitted.latency, fitted.bandwidth) > 0


def test_a_bandwidth_that_is_hardly_known_is_said():
    fitted = fit("ring", [1, 1000, 2000], [1e-3, 1.01e-3, 1.005e-3], 4)
    assert fitted.notes == ("The bandwidth is hardly known: larger sizes would show it.",)


def test_a_fit_says_its_values_with_their_errors():
    assert str(cost_model.Fit(1.2345e-3, 4.98765e7, 5.4e-5, 3.21e5)) == (
        "latency 1.234 ± 0.054 ms, bandwidth 49.88 ± 0.32 MB/s")
    assert str(cost_model.Fit(0.0, 4.5e11, 2e-7, 1e9)) == (
        "latency 0 ± 0.2 µs, bandwidth 450 ± 1 GB/s")


# --- what is refused ---

THREE = [MIB, 2 * MIB, 4 * MIB]


@pytest.mark.parametrize(("arguments", "sentence"), [
    (("ring", THREE[:2], [1, 2], 4), "2 points: expected 3 or more, since any two lie on some line"),
    (("ring", [], [], 4), "0 points: expected 3 or more, since any two lie on some line"),
    (("ring", 3 * [MIB], [1, 2, 3], 4), "bytes=[1048576]: all messages have one size; expected two or more"),
    (("ring", THREE, [1, 2], 4), "3 bytes, 2 seconds: expected as many of each"),
    (("ring", THREE, [1, 2, 3], [4, 4]), "3 bytes, 3 seconds, 2 ranks: expected as many of each"),
    (("ring", THREE, [1, 0, 3], 4), "seconds=0: expected a number above 0"),
    (("ring", THREE, [1, -2.0, 3], 4), "seconds=-2.0: expected a number above 0"),
    (("ring", THREE, [1, math.nan, 3], 4), "seconds=nan: expected a number above 0"),
    (("ring", THREE, [1, math.inf, 3], 4), "seconds=inf: expected a number above 0"),
    (("ring", THREE, [1, "2", 3], 4), "seconds='2': expected a number above 0"),
    (("ring", THREE, [1, None, 3], 4), "seconds=None: expected a number above 0"),
    (("ring", [MIB, 0, MIB], [1, 2, 3], 4), "bytes=0: expected a positive whole number"),
    (("ring", [MIB, 0.5, MIB], [1, 2, 3], 4), "bytes=0.5: expected a positive whole number"),
    (("ring", MIB, 1.0, 4), "bytes=1048576: expected a list of numbers"),
    (("ring", "abc", [1, 2, 3], 4), "bytes='abc': expected a list of numbers"),
    (("ring", THREE, {1: 1}, 4), "seconds={1: 1}: expected a list of numbers"),
    (("ring", THREE, [1, 2, 3], 1), "ranks=1: expected a whole number, 2 or more"),
    (("ring", THREE, [1, 2, 3], "4"), "ranks='4': expected a whole number, 2 or more"),
    (("rings", THREE, [1, 2, 3], 4), "algorithm='rings': expected one of 'star', 'tree', "),
    (("ring", THREE, [3, 2, 1], 4), "seconds do not grow with bytes: expected larger sizes"),
    (("ring", THREE, [1, 1, 1], 4), "seconds do not grow with bytes: expected larger sizes"),
])  # fmt: skip
def test_a_fit_of_bad_points_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        fit(*arguments)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(("change", "sentence"), [
    ({"algorithm": "Ring"}, "algorithm='Ring': expected one of"),
    ({"algorithm": None}, "algorithm=None: expected one of"),
    ({"algorithm": ["ring"]}, "algorithm=['ring']: expected one of"),
    ({"bytes": -1}, "bytes=-1: expected a whole number, 0 or more"),
    ({"bytes": 1.5}, "bytes=1.5: expected a whole number, 0 or more"),
    ({"bytes": True}, "bytes=True: expected a whole number, 0 or more"),
    ({"ranks": 0}, "ranks=0: expected a positive whole number"),
    ({"ranks": True}, "ranks=True: expected a positive whole number"),
    ({"ranks": 2.5}, "ranks=2.5: expected a positive whole number"),
    ({"latency": -1e-6}, "latency=-1e-06: expected a number, 0 or more"),
    ({"latency": math.nan}, "latency=nan: expected a number, 0 or more"),
    ({"latency": "1ms"}, "latency='1ms': expected a number, 0 or more"),
    ({"bandwidth": 0}, "bandwidth=0: expected a number above 0"),
    ({"bandwidth": math.inf}, "bandwidth=inf: expected a number above 0"),
    ({"bandwidth": "400mbit"}, "bandwidth='400mbit': expected a number above 0"),
    ({"bandwidth": [1e9, 1e9]}, "bandwidth has 2 numbers: expected one for each of 4 ranks"),
    ({"bandwidth": [1e9, 1e9, 0, 1e9]}, "bandwidth=0: expected a number above 0"),
    ({"bandwidth": {0: 1e9}}, "bandwidth={0: 1000000000.0}: expected a number above 0"),
])  # fmt: skip
def test_a_cost_that_can_not_be_is_refused_in_one_sentence(change, sentence):
    terms("ring", 1), terms("ring", 4)  # True is 1: what is remembered for one must not answer for the other
    arguments = {"algorithm": "ring", "bytes": MIB, "ranks": 4, "latency": 1e-6, "bandwidth": 1e9, **change}
    with pytest.raises(ValueError) as caught:
        all_reduce_seconds(**arguments)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: bus_bandwidth("all_reduce", 1, 1, 4), "collective='all_reduce': expected one of 'all-reduce', "),
    (lambda: bus_bandwidth("all-reduce", 1, 0, 4), "seconds=0: expected a number above 0"),
    (lambda: bus_bandwidth("all-reduce", -1, 1, 4), "bytes=-1: expected a whole number, 0 or more"),
    (lambda: bus_bandwidth("all-reduce", 1, 1, 0), "ranks=0: expected a positive whole number"),
    (lambda: traffic("rings", 1, 4), "algorithm='rings': expected one of"),
    (lambda: traffic("ring", 1.5, 4), "elements=1.5: expected a whole number, 0 or more"),
    (lambda: traffic("ring", 1, 0), "ranks=0: expected a positive whole number"),
    (lambda: traffic("ring", 1, 4, 0), "element_bytes=0: expected a positive whole number"),
    (lambda: crossover("ring", "cube", 4, 1e-6, 1e9), "algorithm='cube': expected one of"),
    (lambda: crossover("ring", "tree", 4, -1, 1e9), "latency=-1: expected a number, 0 or more"),
    (lambda: cost_model.limit_seconds(1, 4, [1e9] * 4), "bandwidth=[1000000000.0, "),
])  # fmt: skip
def test_other_arguments_that_can_not_be_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(("seconds", "said"), [
    ([1, 1, 1], "do not grow"), ([3, 2, 1], "do not grow"),
    ([1e-9, 1e9, 1e18], "expected times of one network"),
])  # fmt: skip
def test_times_of_no_network_are_refused(seconds, said):
    with pytest.raises(ValueError, match=said):
        cost_model.fit("ring", [10**6, 2 * 10**6, 3 * 10**6], seconds, 4)


def test_a_large_error_is_written_without_an_exponent():
    found = cost_model.Fit(536.2e-6, 43e6, 612e-6, 2.1e6)
    assert str(found) == "latency 536.2 ± 610 µs, bandwidth 43 ± 2.1 MB/s"
