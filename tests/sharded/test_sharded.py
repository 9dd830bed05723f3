"""AdamW sharded over ranks against torch's own on one process, its bytes on the wire, its state in memory."""

import copy
import functools
import itertools
import math
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

from course_lib import all_reduce, ranks
from course_lib.memory import model_state
from course_lib.sharded import ShardedAdamW
from tests.many_cases import run_cases

# With 4 ranks and 3 parameters, one has none.
WORLD_SIZES = [2, 4, *(pytest.param(count, marks=pytest.mark.long) for count in (1, 3, 5, 8))]
STEPS = 4


class Tied(nn.Module):
    """A tied weight, biases, and a layer that may be frozen: 71 parameters."""

    def __init__(self, frozen):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.between = nn.Linear(4, 4)
        self.frozen = nn.Linear(4, 3).requires_grad_(not frozen)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.norm(self.between(self.embedding(tokens)).tanh())
        return torch.cat([self.head(x), self.frozen(x)], dim=-1)


class Three(nn.Module):
    """Three parameters, so that with more ranks some have none."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, tokens):
        return self.weight * (tokens[:, None] - self.weight)


def everything(module):
    return module.parameters()


def without_decay_of_vectors(module):
    """Two groups, as most people train: weight decay for matrices only, and another rate."""
    matrices = [each for each in module.parameters() if each.dim() > 1]
    vectors = [each for each in module.parameters() if each.dim() < 2]
    return [{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0, "lr": 0.02}]


def one_each(module):
    """So many groups that chunks end inside of some and skip others."""
    return [{"params": [each], "weight_decay": 0.1 * place} for place, each in enumerate(module.parameters())]


MODULES = {"tied": lambda: Tied(False), "frozen": lambda: Tied(True), "three": Three}
GROUPS = (everything, without_decay_of_vectors, one_each)


def loss_of(module, step, rank, micro_batch=0):
    """A rank's mean loss; all ranks have as many samples, so the whole batch's is the mean of theirs."""
    generator = torch.Generator().manual_seed(100 * step + 10 * micro_batch + rank)
    tokens = torch.randint(7, (5,), generator=generator)
    return (module(tokens) - tokens[:, None] / 7).square().mean()


def made(kind, dtype=torch.float64):
    torch.manual_seed(0)
    return MODULES[kind]().to(dtype)


def flat(tensors):
    return torch.cat([each.detach().flatten() for each in tensors])


@functools.cache
def ran(count):
    """What each function returned on each rank for each of its cases: in one run, since a rank's first
    optimizer takes longer to import than all of these take."""
    cases = [(function, *case) for function, cases in CASES.items() for case in cases]
    found = {function: [] for function in CASES}
    for (function, *case), results in zip(cases, run_cases(call, count, cases), strict=True):
        found[function].append((case, results))
    return found


def call(function, *case):
    return function(*case)


# --- the same steps ---


def steps(kind, groups, max_norm, micro_batches, settings):
    """How far this rank's weights are from those of one process, at most; and how far those have come."""
    module, alone = made(kind), made(kind)
    began = copy.deepcopy(alone)
    sharded = ShardedAdamW(groups(module), lr=0.05, **settings)
    optimizer = torch.optim.AdamW(groups(alone), lr=0.05, **settings)
    differences = []
    for step in range(STEPS):
        for micro_batch in range(micro_batches):
            (loss_of(module, step, dist.get_rank(), micro_batch) / micro_batches).backward()
        sharded.step(max_norm)
        sharded.zero_grad()
        optimizer.zero_grad()
        every = itertools.product(range(dist.get_world_size()), range(micro_batches))
        losses = [loss_of(alone, step, rank, micro_batch) for rank, micro_batch in every]
        torch.stack(losses).mean().backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(alone.parameters(), max_norm)
        optimizer.step()
        differences.append(furthest(module, alone))
    return max(differences), furthest(alone, began)


def furthest(module, other):
    pairs = zip(module.parameters(), other.parameters(), strict=True)
    return max((one - two).detach().abs().max().item() for one, two in pairs)


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_steps_as_adamw_on_one_process(count):
    for case, results in ran(count)[steps]:
        for rank, (difference, moved) in enumerate(results):
            assert difference < 1e-12 < 1e-3 < moved, (rank, case, difference, moved)


def mixed(kind, max_norm):
    """bf16 weights and gradients, fp32 master: this rank's weights, and those of an optimizer not sharded."""
    module, alone = made(kind, torch.bfloat16), made(kind, torch.bfloat16)
    sharded = ShardedAdamW(module.parameters(), lr=0.01)
    master = nn.Parameter(flat(alone.parameters()).float())
    optimizer = torch.optim.AdamW([master], lr=0.01)
    for step in range(STEPS):
        loss_of(module, step, dist.get_rank()).backward()
        sharded.step(max_norm)
        sharded.zero_grad()
        alone.zero_grad()
        loss_of(alone, step, dist.get_rank()).backward()
        gradient = flat(each.grad for each in alone.parameters()) / dist.get_world_size()
        all_reduce.ring(gradient)
        master.grad = gradient.float()
        if max_norm is not None:
            nn.utils.clip_grad_norm_([master], max_norm)
        optimizer.step()
        sizes = [each.numel() for each in alone.parameters()]
        for parameter, piece in zip(alone.parameters(), master.detach().split(sizes), strict=True):
            parameter.data.copy_(piece.view_as(parameter))
    return flat(module.parameters()), master.detach()


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_bf16_weights_follow_an_fp32_master(count):
    """Each weight is what its master rounds to, and small updates are not lost, as they would be in bf16."""
    for case, results in ran(count)[mixed]:
        for rank, (weights, master) in enumerate(results):
            assert weights.dtype == torch.bfloat16 and torch.equal(weights, results[0][0]), (rank, case)
            assert torch.allclose(weights.float(), master, rtol=2**-7, atol=1e-6), (rank, case)
        assert (weights == master.to(torch.bfloat16)).float().mean() > 0.9, case


# --- bytes ---


def traffic(kind, dtype):
    """Bytes that a step sends, and the ring for a tensor of all its gradients."""
    module = made(kind, dtype)
    sharded = ShardedAdamW(module.parameters())
    loss_of(module, 0, dist.get_rank()).backward()
    with ranks.traffic() as of_step:
        sharded.step()
    with ranks.traffic() as of_ring:
        all_reduce.ring(flat(each.grad for each in module.parameters()))
    with ranks.traffic() as of_norm:
        sharded.step(max_norm=1.0)
    return of_step.total_sent, of_ring.total_sent, of_norm.total_sent - of_step.total_sent


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_sends_what_the_ring_sends(count):
    for case, results in ran(count)[traffic]:
        for rank, (step, ring, _) in enumerate(results):
            assert step == ring and (step > 0 or count == 1), (rank, case, step, ring)
        assert sum(norm for _, _, norm in results) == 2 * (count - 1) * 8, case  # one number in float64
        sent = sum(step for step, _, _ in results)  # 2 (N-1)/N of the gradient by each of N ranks
        assert sent == 2 * (count - 1) * {"tied": 71, "three": 3}[case[0]] * case[1].itemsize, case


def state(kind, dtype):
    module = made(kind, dtype)
    sharded = ShardedAdamW(module.parameters())
    loss_of(module, 0, dist.get_rank()).backward()
    sharded.step()
    trained = [each for each in module.parameters() if each.requires_grad]
    return sharded.state_bytes(), sum(each.numel() for each in trained)


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_holds_what_the_formula_says(count):
    for (kind, dtype), results in ran(count)[state]:
        found, parameters = [each for each, _ in results], results[0][1]
        assert found[0] == model_state(parameters, RECIPES[dtype], zero_stage=1, ranks=count), (kind, dtype)
        together = [sum(getattr(each, what) for each in found) for what in ("master", "optimizer")]
        assert together == [4 * parameters * (dtype == torch.bfloat16), 8 * parameters], (kind, dtype)
        assert {each.weights for each in found} == {each.gradients for each in found}


RECIPES = {torch.bfloat16: "mixed-adam", torch.float32: "fp32-adam"}


# --- beside other parts of torch ---


def after_zero_grad():
    """Bytes of gradients, and what a backward pass says whose graph outlived the step."""
    module = made("tied", torch.float32)
    sharded = ShardedAdamW(module.parameters())
    loss = loss_of(module, 0, 0)
    loss.backward(retain_graph=True)
    sharded.step()
    sharded.zero_grad()
    try:
        loss.backward()
    except RuntimeError as error:
        return sharded.state_bytes().gradients, str(error)


def test_changed_weights_are_noticed():
    [(_, [(gradients, message), *_])] = ran(2)[after_zero_grad]
    assert gradients == 0
    assert "modified by an inplace operation" in message


def scheduled():
    module = made("three")
    sharded = ShardedAdamW(module.parameters(), lr=1.0, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(sharded.optimizer, lambda step: 0.0 if step else 1.0)
    moved = []
    for step in range(2):
        before = module.weight.detach().clone()
        loss_of(module, step, 0).backward()
        sharded.step()
        moved.append((module.weight - before).abs().max().item())
        schedule.step()
    return moved


def test_takes_torchs_schedules():
    [(_, results)] = ran(2)[scheduled]
    assert list(results) == [[pytest.approx(1.0), 0.0]] * 2


# --- refused ---


def refused(mistake):
    module = Tied(frozen=False)
    warnings.simplefilter("ignore")  # torch's own, of a parameter that is there twice
    try:
        MISTAKES[mistake][0](module)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, str(error)


def no_gradient(module):
    ShardedAdamW(module.parameters()).step()


def moved(module):
    sharded = ShardedAdamW(module.parameters())
    loss_of(module.double(), 0, 0).backward()
    sharded.step()


def sparse(module):
    embedding = nn.Embedding(3, 2, sparse=True)
    sharded = ShardedAdamW(embedding.parameters())
    embedding(torch.tensor([1])).sum().backward()
    sharded.step()


def with_norm(module, max_norm):
    sharded = ShardedAdamW(module.parameters())
    loss_of(module, 0, 0).backward()
    sharded.step(max_norm)


def two_types(module):
    module.norm.double()
    ShardedAdamW(module.parameters())


MISTAKES = {
    "no gradient": (no_gradient, "ValueError",
                    "trained parameter 1 of 7, (7, 4), has no gradient: expected a dense gradient"),
    "moved": (moved, "RuntimeError", "(7, 4), has left the row of weights: the module was moved"),
    "sparse": (sparse, "ValueError", "has one of layout torch.sparse_coo: expected a dense gradient"),
    "norm": (lambda module: with_norm(module, -1), "ValueError", "max_norm=-1: expected a number above 0"),
    "infinite": (lambda module: with_norm(module, math.inf), "ValueError", "max_norm=inf: expected"),
    "frozen": (lambda module: ShardedAdamW(module.requires_grad_(False).parameters()), "ValueError",
               "nothing to train: expected a parameter with requires_grad=True"),
    "none": (lambda module: ShardedAdamW([]), "ValueError", "empty parameter list"),
    "types": (two_types, "ValueError", "torch.float32 and torch.float64: expected one floating type for all"),
    "twice": (lambda module: ShardedAdamW([{"params": [module.norm.bias, module.norm.bias]}]), "ValueError",
              "a parameter is there twice"),
    "two groups": (lambda module: ShardedAdamW([{"params": [module.norm.bias]}] * 2), "ValueError",
                   "more than one parameter group"),
    "rate": (lambda module: ShardedAdamW(module.parameters(), lr=-1), "ValueError", "learning rate: -1"),
}  # fmt: skip


def test_mistakes_are_named():
    for [mistake], results in ran(2)[refused]:
        _, kind, part = MISTAKES[mistake]
        for found in results:
            assert found is not None and found[0] == kind and part in found[1], (mistake, found)


CASES = {
    steps: [
        *itertools.product(MODULES, GROUPS, (None,), (1,), ({},)),
        ("tied", everything, 0.01, 1, {}),
        ("frozen", without_decay_of_vectors, 0.02, 2, {}),
        ("three", everything, 0.001, 1, {"weight_decay": 0.5}),
        ("tied", everything, 1e6, 1, {}),
        ("tied", one_each, None, 3, {"betas": (0.5, 0.7), "eps": 1e-3, "amsgrad": True}),
        ("tied", everything, None, 1, {"fused": True}),
    ],
    mixed: [("tied", None), ("three", None), ("tied", 0.01)],
    traffic: [("tied", torch.float32), ("tied", torch.bfloat16), ("three", torch.float64)],
    state: list(itertools.product(MODULES, RECIPES)),
    after_zero_grad: [()],
    scheduled: [()],
    refused: [(mistake,) for mistake in MISTAKES],
}


def _loaded_later():
    """bf16 weights, loaded after a step; and where an optimizer that begins with them takes them."""
    after = []
    for is_later in (True, False):
        module = made("three", torch.bfloat16)
        loaded = {"weight": torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)}
        if not is_later:
            module.load_state_dict(loaded)
        optimizer = ShardedAdamW(module.parameters(), lr=0.0, weight_decay=0.0)
        for step in range(2):
            loss_of(module, step, dist.get_rank()).backward()
            optimizer.step()
            optimizer.zero_grad()
            if is_later and step == 0:
                module.load_state_dict(loaded)
        after.append(module.weight.detach().tolist())
    return after


def test_weights_that_are_loaded_later_are_not_undone():
    for later, before in ranks.run(_loaded_later, 2, device="cpu"):
        assert later == before == [1.0, 2.0, 3.0]
