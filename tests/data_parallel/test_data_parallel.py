"""Broadcasting, averaging and comparing: inputs differ on every rank, and every rank is looked at."""

from __future__ import annotations

import copy
import functools
import math
import operator
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib import all_reduce, cost_model, data_parallel, ranks
from course_lib.links import Links
from tests.many_cases import run_cases

COUNTS = [1, 2, 3, 4, 5, 8]


def run(function, count, *args):
    return ranks.run(function, count, *args, device="cpu", timeout=20)


def error_of(function, *args):
    """What a rank raised, as text; ranks that raise alike need not be waited for."""
    try:
        function(*args)
    except (ValueError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


class Everything(nn.Module):
    """Parameters and buffers of all kinds: tied, frozen, mixed types, odd layouts, empty, shared memory."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.output = nn.Linear(3, 7, bias=False)
        self.output.weight = self.embedding.weight  # tied
        self.norm = nn.BatchNorm1d(3)
        self.fp16 = nn.Parameter(torch.randn(5).half())
        self.bf16 = nn.Parameter(torch.randn(2, 3).bfloat16())
        self.fp64 = nn.Parameter(torch.randn(()).double())
        self.complex = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        self.transposed = nn.Parameter(torch.randn(4, 3).t())
        self.strided = nn.Parameter(torch.randn(10)[::3])
        self.channels_last = nn.Parameter(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
        self.empty = nn.Parameter(torch.randn(0, 3))
        self.frozen = nn.Parameter(torch.randn(3).double(), requires_grad=False)
        self.register_buffer("flags", torch.rand(5) > 0.5)
        self.register_buffer("small", torch.randint(100, (3,), dtype=torch.int16))
        self.register_buffer("eight_bits", torch.randn(3).to(torch.float8_e4m3fn), persistent=False)
        self.register_buffer("expanded", torch.randn(3, 1, 2).expand(3, 4, 2))
        self.register_buffer("nothing", None)


def descend(module, lr=0.2):
    """A step of SGD.  torch's own optimizers import for seconds in each fresh rank, so one test has them."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= lr * parameter.grad
                parameter.grad = None


def everything(module):
    return [*module.parameters(), *module.buffers()]


def bits(tensor):
    """To compare bit by bit: for torch.equal a NaN differs from itself, and 0.0 is -0.0."""
    row = tensor.detach().contiguous().view(-1).view(torch.uint8)
    return tuple(tensor.shape), str(tensor.dtype), bytes(row.tolist())


def same_bits(one, other):
    return bits(one) == bits(other)


# --- broadcast_parameters ---


def broadcast_everything():
    module = Everything()  # different on each rank: ranks are seeded with their number
    with torch.no_grad():
        module.fp16[0] = math.nan
        module.bf16[0, 0] = -0.0
    before = copy.deepcopy(module)
    places = [(tensor.data_ptr(), tensor.stride()) for tensor in everything(module)]
    data_parallel.broadcast_parameters(module)
    assert [(tensor.data_ptr(), tensor.stride()) for tensor in everything(module)] == places
    assert module.output.weight is module.embedding.weight
    assert not module.frozen.requires_grad and module.fp16.requires_grad and module.fp16.is_leaf
    return [bits(tensor) for tensor in everything(before)], [bits(tensor) for tensor in everything(module)]


@pytest.mark.parametrize("count", COUNTS)
def test_all_ranks_have_rank_0s_bits(count):
    results = run(broadcast_everything, count)
    first_before = results[0][0]
    assert len(first_before) == 19
    for rank, (before, after) in enumerate(results):
        assert after == first_before, rank
        if rank:  # else nothing was to be done
            assert sum(map(operator.ne, before, first_before)) >= 12


class Odd(nn.Module):
    """A Linear that is another one on the given rank."""

    def __init__(self, odd_rank, change):
        super().__init__()
        odd = dist.get_rank() == odd_rank
        if change == "order" and odd:
            self.bias, self.weight = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(4, 3))
            return
        self.weight = nn.Parameter(torch.ones(3, 4) if change == "shape" and odd else torch.ones(4, 3))
        if change == "more" and odd:
            self.scale = nn.Parameter(torch.ones(1))
        if not (change == "less" and odd):
            self.bias = nn.Parameter(torch.ones(3, dtype=torch.half if change == "type" and odd else None))


def broadcast_odd(odd_rank, change):
    module = Odd(odd_rank, change)
    for parameter in module.parameters():
        parameter.data.fill_(dist.get_rank())
    values = [parameter.detach().clone() for parameter in module.parameters()]
    error = error_of(data_parallel.broadcast_parameters, module)
    assert all(map(same_bits, module.parameters(), values)), "moved before the error"
    assert error == error_of(data_parallel.assert_in_step, module)
    return error


FOUND = {
    "shape": "weight (4, 3) float32 on ranks 0 and 2; parameter weight (3, 4) float32 on rank 1",
    "type": "bias (3,) float32 on ranks 0 and 2; parameter bias (3,) float16 on rank 1",
    "more": "bias (3,) float32 on ranks 0 and 2; parameter scale (1,) float32 on rank 1",
    "less": "bias (3,) float32 on ranks 0 and 2; nothing more on rank 1",
    "order": "weight (4, 3) float32 on ranks 0 and 2; parameter bias (3,) float32 on rank 1",
}


def test_modules_that_differ_are_refused_on_all_ranks_before_data_moves():
    errors = run_cases(broadcast_odd, 3, [(1, change) for change in FOUND], timeout=20)
    for found, on_ranks in zip(FOUND.values(), errors, strict=True):
        difference = f"At the first difference: parameter {found}"
        expected = f"ValueError: the modules are not the same on all ranks. {difference}"
        assert on_ranks == (expected,) * 3


def refusals():
    sparse = nn.Linear(2, 2)
    sparse.register_buffer("mask", torch.eye(2).to_sparse())
    lazy, meta = nn.LazyLinear(3), nn.Linear(2, 2, device="meta")
    return [error_of(data_parallel.broadcast_parameters, each) for each in (lazy, meta, sparse, [1])]


def test_what_can_not_be_sent_is_refused():
    for lazy, meta, sparse, no_module in run(refusals, 2):
        assert "weight has no shape yet" in lazy
        assert "weight is on the meta device" in meta
        assert "buffer mask has layout torch.sparse_coo" in sparse
        assert "module=[1]: expected a torch.nn.Module" in no_module


# --- average_gradients ---


def gradients(parameters, rank, whole_numbers=True):
    """A gradient for each parameter that depends on the rank and the parameter; sums of them are exact."""
    generator = torch.Generator().manual_seed(100 + rank)
    for parameter in parameters:
        values = torch.randint(-8, 9, parameter.shape, generator=generator)
        if not whole_numbers:
            values = torch.randn(parameter.shape, generator=generator)
        parameter.grad = torch.empty_like(parameter).copy_(values)


def average_everything(way):
    world = dist.get_world_size()
    module = Everything()
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    module.frozen.grad = torch.full((3,), float(dist.get_rank()), dtype=torch.double)
    expected = [torch.zeros_like(parameter, requires_grad=False) for parameter in trainable]
    for rank in range(world):
        gradients(trainable, rank)
        for total, parameter in zip(expected, trainable, strict=True):
            total += parameter.grad / world
    gradients(trainable, dist.get_rank())
    places = [(parameter.grad.data_ptr(), parameter.grad.stride()) for parameter in trainable]
    values = [parameter.detach().clone() for parameter in module.parameters()]
    data_parallel.average_gradients(module, way)
    assert [(parameter.grad.data_ptr(), parameter.grad.stride()) for parameter in trainable] == places
    assert all(map(same_bits, module.parameters(), values)), "a parameter has changed"
    assert module.frozen.grad.tolist() == [dist.get_rank()] * 3
    for total, parameter in zip(expected, trainable, strict=True):
        rounding = torch.finfo(parameter.dtype).eps * 8 if world in (3, 5) else 0
        # Not by torch.testing, which imports for most of a second in each rank.
        assert parameter.grad.dtype == total.dtype and parameter.grad.shape == total.shape
        assert torch.allclose(parameter.grad, total, rtol=rounding, atol=rounding * 8)
    return [parameter.grad for parameter in trainable]


@pytest.mark.parametrize("count", COUNTS)
def test_the_mean_of_every_gradient_on_every_rank(count):
    ways = [None, all_reduce.star, all_reduce.unchunked_ring]
    results = run_cases(average_everything, count, [(way,) for way in ways], timeout=20)
    for way, (first, *others) in zip(ways, results, strict=True):
        assert len(first) == 11
        if way is not all_reduce.unchunked_ring:  # each rank adds in an order of its own there
            assert all(all(map(same_bits, first, other)) for other in others)


def average_by(way):
    module = nn.Linear(3, 2)
    gradients(module.parameters(), dist.get_rank(), whole_numbers=False)
    data_parallel.average_gradients(module, way)
    return module.weight.grad, module.bias.grad


def test_torchs_own_all_reduce_serves_as_well():
    for ours, theirs in zip(*run_cases(average_by, 4, [(None,), (dist.all_reduce,)]), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


def average_halves(size):
    module = nn.ParameterDict({"w": nn.Parameter(torch.zeros(3, dtype=torch.half))})
    module["w"].grad = torch.full((3,), size, dtype=torch.half)
    data_parallel.average_gradients(module)
    summed = torch.full((3,), size, dtype=torch.half)
    all_reduce.ring(summed)
    return module["w"].grad.tolist(), summed.tolist()


def test_fp16_does_not_overflow():
    assert run(average_halves, 4, 30000.0) == [([30000.0] * 3, [math.inf] * 3)] * 4


class Branches(nn.Module):
    """Four layers; each rank uses those of its list."""

    def __init__(self, used_by_rank):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(4))
        self.used = used_by_rank[dist.get_rank()]

    def forward(self, x):
        return sum(self.layers[i](x) for i in self.used) if self.used else x


def average_branches(used_by_rank):
    module = Branches(used_by_rank)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.1)
    before = [layer.weight.detach().clone() for layer in module.layers]
    if module.used:
        module(torch.full((1, 2), 1.0 + dist.get_rank())).sum().backward()
    data_parallel.average_gradients(module)
    optimizer.step()
    data_parallel.assert_in_step(module)
    moved = [not torch.equal(layer.weight, old) for layer, old in zip(module.layers, before, strict=True)]
    found = [layer.weight.grad for layer in module.layers]
    return [None if gradient is None else gradient[0, 0].item() for gradient in found], moved


def test_unused_on_some_ranks_counts_as_zero_and_unused_on_all_stays_none():
    # Gradients are 1, 2, 3, 4 on ranks 0 to 3 where a layer is used.
    for found, moved in run(average_branches, 4, [[0, 1], [0], [0, 1], []]):
        assert found == [(1 + 2 + 3) / 4, (1 + 3) / 4, None, None]
        assert moved == [True, True, False, False]  # AdamW decays what has a zero gradient, not what has none


def two_steps():
    """set_to_none between the steps, and .grad of another layout in the second."""
    module, found = nn.Linear(2, 3), []
    data_parallel.broadcast_parameters(module)
    for step in range(2):
        module(torch.full((1, 2), float(dist.get_rank() + step))).sum().backward()
        if step:
            module.weight.grad = torch.empty(2, 3).t().copy_(module.weight.grad)
        data_parallel.average_gradients(module)
        found.append(module.weight.grad.tolist())
        descend(module)
        data_parallel.assert_in_step(module)
    return found


def test_several_steps():
    assert run(two_steps, 3) == [[[[1.0, 1.0]] * 3, [[2.0, 2.0]] * 3]] * 3


def calls_of_all_reduce():
    module, seen = Branches([[0, 2], [2]]), []
    module(torch.ones(1, 2)).sum().backward()

    def counting(tensor):
        seen.append(tuple(tensor.shape))
        all_reduce.ring(tensor)

    data_parallel.average_gradients(module, counting)
    return seen


def test_all_reduce_is_called_for_gradients_only():
    assert run(calls_of_all_reduce, 2) == [[(2, 2)] * 2] * 2


def average_of_different_modules(change):
    rank = dist.get_rank()
    sizes = {"order": (2, 2), "shape": (2, 3)}[change]
    module = torch.nn.Module()
    if change == "order":
        for name in ("ab" if rank else "ba"):
            setattr(module, name, torch.nn.Parameter(torch.ones(sizes)))
    else:
        module.a = torch.nn.Parameter(torch.ones(sizes[::-1] if rank else sizes))
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    return error_of(data_parallel.average_gradients, module)


def test_gradients_that_do_not_belong_together_are_not_averaged():
    for errors in run_cases(average_of_different_modules, 3, [("order",), ("shape",)], timeout=20):
        assert all("the modules are not the same on all ranks" in error for error in errors)


def average_conjugated():
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    module = torch.nn.ParameterList([weight])
    (weight.conj() * (1 + 1j * dist.get_rank())).real.sum().backward()
    data_parallel.average_gradients(module)
    return weight.grad.tolist()


def test_a_conjugated_gradient():
    assert run(average_conjugated, 2) == [[1 + 0.5j] * 3] * 2


def broadcast_on_paced_links():
    torch.manual_seed(dist.get_rank())
    module = torch.nn.Linear(256, 256)  # 257 KiB
    with ranks.traffic() as traffic:
        data_parallel.broadcast_parameters(module)
    data_parallel.assert_in_step(module)
    return traffic.total_sent


def test_broadcasting_goes_by_messages_and_rank_0_sends_less_than_two_tensors():
    sent = ranks.run(broadcast_on_paced_links, 3, links=Links("1gbit", kind="paced"))
    assert sent[0] < 2 * 4 * 257 * 256


def bytes_of_averaging():
    module = Branches([[0, 1], [0], [], [0]])
    if module.used:
        module(torch.ones(1, 2)).sum().backward()
    with ranks.traffic() as traffic:
        data_parallel.average_gradients(module)
    return traffic.total_sent, traffic.total_received


def test_the_agreement_is_counted_with_the_gradients():
    """Two gradients of four floats each; four counts, one for each parameter, and a checksum, of 8 bytes."""
    rings = [cost_model.traffic("ring", 4, 4, 4), cost_model.traffic("ring", 4, 4, 4)]
    rings.append(cost_model.traffic("ring", 5, 4, element_bytes=8))
    expected = [
        (sum(ring.sent[rank] for ring in rings), sum(ring.received[rank] for ring in rings))
        for rank in range(4)
    ]
    assert run(bytes_of_averaging, 4) == expected


class Deep(nn.Module):
    """Tied and frozen weights, and an even shape nowhere."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 5)
        self.frozen = nn.Linear(5, 5)
        self.frozen.requires_grad_(False)
        self.norm = nn.LayerNorm(5)
        self.output = nn.Linear(5, 11)
        self.output.weight = self.embedding.weight
        self.double()

    def forward(self, tokens):
        return self.output(self.norm(torch.tanh(self.frozen(self.embedding(tokens)))))


def train(batches, shared):
    """A training loop on this rank's part of each batch; the whole batch where nothing is shared."""
    module, history = Deep(), []
    if shared:
        data_parallel.broadcast_parameters(module)
    else:
        torch.manual_seed(0)  # the seed of rank 0
        module = Deep()
    for tokens, targets in batches:
        if shared:
            own = slice(dist.get_rank(), None, dist.get_world_size())
            tokens, targets = tokens[own], targets[own]
        nn.functional.cross_entropy(module(tokens), targets).backward()
        if shared:
            data_parallel.average_gradients(module)
        history.append([parameter.grad for parameter in module.parameters() if parameter.requires_grad])
        descend(module)
    data_parallel.assert_in_step(module)
    return history


@pytest.mark.parametrize("count", COUNTS)
def test_the_same_gradients_as_one_process_with_the_whole_batch(count):
    """Step by step, in float64: only the order of additions differs."""
    generator = torch.Generator().manual_seed(1)
    batches = [torch.randint(11, (2, 120), generator=generator).unbind() for _ in range(6)]
    [alone] = run(train, 1, batches, False)
    for rank, shared in enumerate(run(train, count, batches, True)):
        for ours, theirs in zip(shared, alone, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert (one - other).norm() <= 1e-12 * other.norm(), rank


def as_ddp():
    """Ours and torch's DDP on the same inputs: the same rule, so the same bits."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    theirs = copy.deepcopy(module)
    wrapped = DistributedDataParallel(theirs)
    inputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(dist.get_rank()))
    module(inputs).square().mean().backward()
    wrapped(inputs).square().mean().backward()
    data_parallel.average_gradients(module)
    return max(
        (one.grad - other.grad).abs().max().item()
        for one, other in zip(module.parameters(), theirs.parameters(), strict=True)
    )


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_same_gradients_as_torchs_ddp(count):
    differences = run(as_ddp, count)
    assert max(differences) <= 1e-7
    if count == 2:  # a sum of two has one order only
        assert differences == [0.0, 0.0]


def refused_averages():
    ddp = DistributedDataParallel(nn.Linear(2, 2))
    inside = nn.Sequential(ddp)
    sparse = nn.Embedding(5, 2, sparse=True)
    sparse(torch.tensor([1, 2])).sum().backward()
    return [error_of(data_parallel.average_gradients, each) for each in (ddp, inside, sparse, ddp.parameters)]


def test_what_would_be_averaged_wrongly_is_refused():
    for ddp, inside, sparse, no_module in run(refused_averages, 2):
        assert ddp == inside and "inside DistributedDataParallel, which averages" in ddp
        assert "parameter weight has a gradient of layout torch.sparse_coo" in sparse
        assert "expected a torch.nn.Module" in no_module


def freeze_on_rank_1():
    module = nn.Linear(2, 2)
    module.bias.requires_grad_(dist.get_rank() != 1)
    module(torch.ones(1, 2)).sum().backward()
    data_parallel.average_gradients(module)


def test_frozen_on_one_rank_only_is_named():
    with pytest.raises(ranks.RankFailed) as failed:
        run(freeze_on_rank_1, 2)
    assert "parameter bias is frozen on rank 1, but not on a rank with a gradient" in str(failed.value)


# --- assert_in_step ---


def in_step(change, buffers):
    torch.manual_seed(0)
    module = Everything()
    with torch.no_grad():
        module.fp16[0] = math.nan
        change(module, dist.get_rank())
    return error_of(data_parallel.assert_in_step, module, buffers)


def flip_last_bit(module, rank):
    if rank == 2:
        bits = module.transposed.data.view(torch.int32)
        bits[1, 1] ^= 1


def negative_zero(module, rank):
    module.fp64.fill_(-0.0 if rank in (1, 3) else 0.0)


def swap_two(module, rank):
    if rank == 1:  # a plain sum would not notice
        module.channels_last.copy_(module.channels_last.flip(0))
        module.strided.copy_(module.strided.flip(0))


def all_differ(module, rank):
    module.frozen.fill_(rank)


def buffer_differs(module, rank):
    module.norm.num_batches_tracked += rank


EACH_FOR_ITSELF = "rank 0, another on rank 1, another on rank 2, another on rank 3"


CHANGES = {
    flip_last_bit: (1, "transposed", "ranks 0, 1 and 3, another on rank 2"),
    negative_zero: (1, "fp64", "ranks 0 and 2, another on ranks 1 and 3"),
    swap_two: (2, "strided", "ranks 0, 2 and 3, another on rank 1"),
    all_differ: (1, "frozen", EACH_FOR_ITSELF),
}


def test_the_first_parameter_that_differs_is_named_with_its_ranks():
    errors = run_cases(in_step, 4, [(change, False) for change in CHANGES], timeout=20)
    for (number, first, ranks_by_value), on_ranks in zip(CHANGES.values(), errors, strict=True):
        expected = (
            f"AssertionError: The ranks are out of step: {number} of 12 tensors differ. "
            f"The first is parameter {first}, with one value on {ranks_by_value}."
        )
        assert on_ranks == (expected,) * 4


def test_buffers_are_compared_when_asked_for():
    without, with_buffers = run_cases(in_step, 4, [(buffer_differs, False), (buffer_differs, True)])
    assert without == (None,) * 4
    for error in with_buffers:
        assert "1 of 19 tensors differ. The first is buffer norm.num_batches_tracked" in error
        assert error.endswith(f", with one value on {EACH_FOR_ITSELF}.")


def change_on(odd, module, rank):
    module.bf16[1, 2] = float(rank == odd)


@pytest.mark.parametrize("count", COUNTS)
def test_equal_is_in_step_even_with_nan_and_any_one_rank_is_noticed(count):
    changes = [(functools.partial(change_on, odd), False) for odd in range(1, count)]
    equal, *errors = run_cases(in_step, count, [(lambda module, rank: None, True), *changes], timeout=20)
    assert equal == (None,) * count
    for odd, on_ranks in enumerate(errors, start=1):
        for error in on_ranks:
            assert "parameter bf16" in error and error.endswith(f"another on rank {odd}.")


def test_one_rank_is_in_step_with_itself():
    assert run(in_step, 1, all_differ, True) == [None]


# --- under torchrun ---

PROGRAM = """
import torch, torch.distributed as dist
from course_lib import data_parallel, ranks

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
module = torch.nn.Linear(3, 2)
data_parallel.broadcast_parameters(module)
data_parallel.assert_in_step(module)
module(torch.full((1, 3), float(rank))).sum().backward()
data_parallel.average_gradients(module)
assert module.weight.grad.tolist() == [[0.5] * 3] * 2, module.weight.grad
module.weight.data -= rank * module.weight.grad
try:
    data_parallel.assert_in_step(module)
except AssertionError as error:
    ranks.log(error)
dist.destroy_process_group()
"""


@pytest.mark.long
def test_it_runs_under_torchrun(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program],
        capture_output=True, text=True, timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    difference = "The first is parameter weight, with one value on rank 0, another on rank 1."
    assert sorted(done.stdout.splitlines()) == [
        f"[rank {rank}] The ranks are out of step: 1 of 2 tensors differ. {difference}" for rank in range(2)
    ]
