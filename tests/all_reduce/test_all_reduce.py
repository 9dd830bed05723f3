"""The all-reduces: right for every shape, type, layout and N, the same on all ranks, and their bytes."""

import math
from itertools import product

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib import all_reduce, ranks
from tests.many_cases import run_cases

WORLD_SIZES = [1, 2, 3, 4, 5, 8]
NAMES = ["ring", "star", "unchunked_ring"]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]
LAYOUTS = ["contiguous", "transposed", "strided", "narrowed", "channels_last", "offset"]
SHAPES = [(), (0,), (1, 0, 2), (1,), (2,), (7,), (4, 4), (3, 5), (2, 3, 4, 5), (1009,)]


def run(function, count, *args):
    return ranks.run(function, count, *args, device="cpu")


def laid_out(values, layout):
    """A tensor of these values in an unusual layout, where its shape allows that, and its whole storage."""
    if layout == "transposed" and values.dim() > 1:
        storage = values.mT.contiguous()
        return storage.mT, storage
    if layout == "strided" and values.dim():
        storage = torch.zeros(*values.shape[:-1], 2 * values.shape[-1], dtype=values.dtype)
        tensor = storage[..., ::2]
    elif layout == "narrowed" and values.dim():
        storage = torch.zeros(values.shape[0] + 2, *values.shape[1:], dtype=values.dtype)
        tensor = storage[1:-1]
    elif layout == "channels_last" and values.dim() == 4:
        storage = tensor = torch.empty_like(values, memory_format=torch.channels_last)
    else:
        storage = torch.zeros(values.numel() + 3, dtype=values.dtype)
        tensor = storage[3:].view(values.shape)
    tensor.copy_(values)
    return tensor, storage


def small_integers(shape, dtype, rank):
    """Different on each rank, and so small that sums of eight are exact in every type, also in bfloat16."""
    count = math.prod(shape)
    return ((torch.arange(count) * 7 + rank * 5) % 13).to(getattr(torch, dtype)).view(shape)


def sums(name, shape, dtype, layout):
    """This rank's tensor after the all-reduce, and whether what lies around it is as it was."""
    tensor, storage = laid_out(small_integers(shape, dtype, dist.get_rank()), layout)
    around = int((storage != 0).sum()) - int((tensor != 0).sum())
    getattr(all_reduce, name)(tensor)
    unharmed = int((storage != 0).sum()) - int((tensor != 0).sum()) == around
    return tensor.clone(memory_format=torch.contiguous_format), unharmed


def assert_sums(count, cases):
    for case, results in zip(cases, run_cases(sums, count, cases), strict=True):
        _, shape, dtype, _ = case
        right = sum(small_integers(shape, dtype, rank) for rank in range(count))
        for rank, (found, unharmed) in enumerate(results):
            assert torch.equal(found, right) and found.dtype == right.dtype, (rank, case, found, right)
            assert unharmed, (rank, case)


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_sums_of_any_type(count):
    assert_sums(count, list(product(NAMES, [(), (7,)], DTYPES, ["contiguous"])))


# Other numbers of ranks are drawn below.
@pytest.mark.parametrize("count", [3, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 4, 5, 8))])
def test_sums_in_any_layout(count):
    assert_sums(count, list(product(NAMES, SHAPES, ["float32"], LAYOUTS)))


shapes = st.lists(st.integers(0, 6), max_size=4).map(tuple)
case = st.tuples(st.sampled_from(NAMES), shapes, st.sampled_from(DTYPES), st.sampled_from(LAYOUTS))


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(WORLD_SIZES), st.lists(case, min_size=8, max_size=14))
def test_sums_of_any_shape(count, cases):
    assert_sums(count, cases)


def normal(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def random_sums(name, dtype, size):
    tensor = normal(size, dist.get_rank()).to(getattr(torch, dtype))
    getattr(all_reduce, name)(tensor)
    return tensor


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_all_ranks_end_with_the_same_bits(count):
    """Random floats, since integers and two ranks would hide another order of additions."""
    exact = sum(normal(1013, rank).double() for rank in range(count))
    cases = list(product(("ring", "star"), ["float64", "float32", "float16", "bfloat16"], [1013]))
    for case, (first, *others) in zip(cases, run_cases(random_sums, count, cases), strict=True):
        assert all(torch.equal(first, other) for other in others), case
        rounded = {"float16": 2e-2, "bfloat16": 2e-1}.get(case[1], 1e-5)
        assert (first.double() - exact).abs().max() < rounded, case


@pytest.mark.parametrize("count", [3, 4, 8])
def test_the_unchunked_rings_replicas_differ_in_the_last_bits(count):
    first, *others = run(random_sums, count, "unchunked_ring", "float32", 1013)
    assert any(not torch.equal(first, other) for other in others)
    assert all(torch.allclose(first, other, atol=1e-5) for other in others)


def halves(size):
    scattered = torch.arange(size, dtype=torch.float64) * (dist.get_rank() + 1)
    all_reduce.reduce_scatter(scattered)
    gathered = scattered.clone()
    all_reduce.all_gather(gathered)
    return scattered, gathered


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_reduce_scatter_and_all_gather(count):
    sizes = [0, 1, 3, 8, 1001]
    for size, results in zip(sizes, run_cases(halves, count, [(size,) for size in sizes]), strict=True):
        right = torch.arange(size, dtype=torch.float64) * (count * (count + 1) / 2)
        for rank, (scattered, gathered) in enumerate(results):
            assert torch.equal(scattered.tensor_split(count)[rank], right.tensor_split(count)[rank])
            assert torch.equal(gathered, right)


def scattered(size):
    tensor = torch.arange(size, dtype=torch.float64) * (dist.get_rank() + 1)
    all_reduce.scatter(tensor)
    part = tensor.tensor_split(dist.get_world_size())[dist.get_rank()].clone()
    all_reduce.all_gather(tensor)
    return part, tensor


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_scatter_and_all_gather_spread_rank_0s_tensor(count):
    sizes = [0, 1, 3, 1001]
    for size, results in zip(sizes, run_cases(scattered, count, [(size,) for size in sizes]), strict=True):
        right = torch.arange(size, dtype=torch.float64)
        for rank, (part, gathered) in enumerate(results):
            assert torch.equal(part, right.tensor_split(count)[rank]) and torch.equal(gathered, right)


def in_pairs():
    """Even ranks sum among themselves, odd ones likewise; groups list their ranks in falling order."""
    groups = [dist.new_group([4, 2, 0]), dist.new_group([3, 1])]
    own = groups[dist.get_rank() % 2]
    results = []
    for name in NAMES:
        tensor = torch.ones(5) * 10.0 ** dist.get_rank()
        with ranks.traffic() as traffic:
            getattr(all_reduce, name)(tensor, own)
        results.append((float(tensor[0]), all(peer % 2 == dist.get_rank() % 2 for peer in traffic.sent)))
    scattered = torch.ones(6) * 10.0 ** dist.get_rank()
    all_reduce.reduce_scatter(scattered, own)
    all_reduce.all_gather(scattered, own)
    return results, float(scattered[5])


def test_groups():
    for rank, (results, last) in enumerate(run(in_pairs, 5)):
        right = 10101.0 if rank % 2 == 0 else 1010.0
        assert results == [(right, True)] * 3 and last == right


def traffic_of(name, size, dtype):
    tensor = torch.zeros(size, dtype=getattr(torch, dtype))
    with ranks.traffic() as traffic:
        getattr(all_reduce, name)(tensor)
    return dict(traffic.sent), dict(traffic.received)


def lengths(size, count):
    return [size // count + (index < size % count) for index in range(count)]


def ring_bytes(size, count):
    """What each rank sends: all chunks but its own, then all but its right neighbor's."""
    chunks = lengths(size, count)
    return [2 * size - chunks[rank] - chunks[(rank + 1) % count] for rank in range(count)]


TRAFFIC = [
    (1001, "float32", 4), (1001, "bfloat16", 2), (3, "float64", 8), (840, "int8", 1), (1, "float16", 2)
]  # fmt: skip


def traffic_by_name(count, names):
    """Sizes and widths of TRAFFIC, with what was sent and received on each rank by each of the names."""
    cases = [(name, size, dtype) for size, dtype, _ in TRAFFIC for name in names]
    found = iter(run_cases(traffic_of, count, cases))
    return [(size, width, [next(found) for _ in names]) for size, _, width in TRAFFIC]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_bytes_on_each_link(count):
    def without_zeros(traffic):
        return {peer: amount for peer, amount in traffic.items() if amount}

    for size, width, (ring, unchunked, star) in traffic_by_name(count, ["ring", "unchunked_ring", "star"]):
        for rank, elements in enumerate(ring_bytes(size, count)):
            expected = {(rank + 1) % count: width * elements} if elements else {}
            assert without_zeros(ring[rank][0]) == expected
            assert ring[(rank + 1) % count][1].get(rank, 0) == width * elements
        for rank, (sent, received) in enumerate(unchunked):
            assert sent == {(rank + 1) % count: (count - 1) * size * width}
            assert received == {(rank - 1) % count: (count - 1) * size * width}
        for rank, (sent, received) in enumerate(star):
            others = [other for other in range(count) if other] if rank == 0 else [0]
            assert sent == received == dict.fromkeys(others, size * width)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_ring_sends_the_least_possible(count):
    """2 (N-1)/N of the tensor where N divides it."""
    sent = [sum(sent.values()) for sent, _ in run(traffic_of, count, "ring", 840, "float32")]
    assert sent == [2 * (count - 1) * 840 * 4 // count] * count


@pytest.mark.parametrize("count", [2, 3, 8])
def test_each_half_sends_half(count):
    chunks = lengths(1001, count)
    names = ["reduce_scatter", "all_gather"]
    scattered, gathered = run_cases(traffic_of, count, [(name, 1001, "float32") for name in names])
    for rank in range(count):
        assert sum(scattered[rank][0].values()) == 4 * (1001 - chunks[rank])
        assert sum(gathered[rank][0].values()) == 4 * (1001 - chunks[(rank + 1) % count])


def one_rank_alone(name):
    tensor = torch.arange(6.0).view(2, 3).t()
    before = tensor.clone()
    with ranks.traffic() as traffic:
        getattr(all_reduce, name)(tensor)
    return torch.equal(tensor, before), traffic.total_sent, traffic.total_received


def test_one_rank_gets_its_own_back_and_sends_nothing():
    cases = [(name,) for name in (*NAMES, "reduce_scatter", "all_gather")]
    assert run_cases(one_rank_alone, 1, cases) == [((True, 0, 0),)] * 5


def with_negative_bit(name):
    results = []
    for parts in (1, 3):
        tensor = (torch.ones(parts) * (1 + 1j * (dist.get_rank() + 1))).conj().imag
        getattr(all_reduce, name)(tensor)
        results.append(tensor.tolist())
    return results


def test_views_whose_numbers_are_stored_with_the_other_sign():
    for found in run_cases(with_negative_bit, 3, [(name,) for name in NAMES]):
        assert list(found) == [[[-6.0], [-6.0] * 3]] * 3


def change_what_backward_needs(name):
    weight = torch.ones(4, requires_grad=True)
    output = (weight * 2).exp()
    getattr(all_reduce, name)(output)
    try:
        output.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)


def test_autograd_notices_the_change_on_every_rank():
    cases = [(name,) for name in (*NAMES, "all_gather")]
    assert run_cases(change_what_backward_needs, 3, cases) == [(True,) * 3] * 4


def outside():
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        all_reduce.ring(torch.ones(2), group)
        return ""
    with pytest.raises(ValueError, match="rank 2 is not in this group") as caught:
        all_reduce.ring(torch.ones(2), group)
    return str(caught.value)


def test_a_rank_outside_the_group_is_told():
    assert run(outside, 3)[2].startswith("rank 2 is not in this group")


def overflowing():
    tensor = torch.full((3,), 30000.0, dtype=torch.float16)
    all_reduce.ring(tensor)
    return tensor


def test_a_float16_sum_may_overflow_as_the_documentation_says():
    assert all(torch.isinf(tensor).all() for tensor in run(overflowing, 4))


def gradients():
    weight = torch.nn.Parameter(torch.ones(3) * (dist.get_rank() + 1))
    loss = (weight * torch.ones(3)).sum()
    loss.backward()
    all_reduce.ring(weight.grad)
    all_reduce.ring(weight)  # a leaf that requires its gradient
    return weight.grad, weight.detach(), weight.requires_grad


def test_parameters_and_gradients():
    for gradient, weight, requires_grad in run(gradients, 2):
        assert gradient.tolist() == [2.0] * 3 and weight.tolist() == [3.0] * 3 and requires_grad


@pytest.mark.parametrize(("make", "says"), [
    (lambda: torch.zeros(3, dtype=torch.complex64), "expected real numbers; torch.view_as_real"),
    (lambda: torch.zeros(3).to(torch.float8_e4m3fn), "float8_e4m3fn, which torch can't add: expected one of"),
    (lambda: torch.zeros(3, dtype=torch.uint16), "uint16, which torch can't add"),
    (lambda: torch.zeros(3, device="meta"), "a meta tensor can't be changed"),
    (lambda: torch.inference_mode()(torch.zeros)(3), "an inference tensor can't be changed"),
    (lambda: torch.zeros(3, dtype=torch.bool), "a sum of truth values is a count"),
    (lambda: torch.eye(3).to_sparse(), "call to_dense"),
    (lambda: torch.ones(1).expand(3), "shares memory between its elements"),
    (lambda: [1.0, 2.0], "expected a torch.Tensor"),
    (lambda: None, "expected a torch.Tensor")])  # fmt: skip
@pytest.mark.parametrize("name", [*NAMES, "reduce_scatter", "all_gather"])
def test_what_can_not_be_summed_is_refused(name, make, says):
    with pytest.raises(ValueError, match=says):
        getattr(all_reduce, name)(make())


def different_lengths(name):
    getattr(all_reduce, name)(torch.zeros(10 + dist.get_rank()))


def different_types(name):
    getattr(all_reduce, name)(torch.zeros(12, dtype=torch.float64 if dist.get_rank() else torch.float32))


@pytest.mark.parametrize("function", [different_lengths, different_types])
@pytest.mark.parametrize("name", NAMES)
def test_ranks_that_disagree_are_told_before_data_moves(name, function):
    with pytest.raises(ranks.RankFailed, match=r"float|elements"):
        ranks.run(function, 3, name, device="cpu", timeout=10)


def posted_first(name):
    """Whether every receive is posted before the send that goes with it."""
    order = []
    post = dist.distributed_c10d.batch_isend_irecv

    def noting(messages):
        order.append([message.op.__name__ for message in messages])
        return post(messages)

    all_reduce.dist.batch_isend_irecv = noting
    getattr(all_reduce, name)(torch.zeros(30))
    return order


def test_receives_are_posted_before_sends():
    for order in run(posted_first, 3, "ring"):
        assert order == [["irecv", "isend"]] * 4
