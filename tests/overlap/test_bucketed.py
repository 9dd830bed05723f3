"""BucketedDataParallel trains as one process does on the whole batch, whatever module and settings."""

import copy
import itertools
import math
import random

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib import all_reduce, overlap
from tests.many_cases import run_cases

WIDTH = 6
TINY = 1e-4  # MiB: some parameters in each bucket


class Chain(nn.Module):
    """Layers one after another, each used as often as ``uses`` says, some of them recomputed."""

    def __init__(self, uses=(1, 1, 1), recompute="", dtypes=(torch.float64,) * 3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, dtype=dtype) for dtype in dtypes)
        self.uses, self.recompute = uses, recompute

    def forward(self, x):
        for layer, uses in zip(self.layers, self.uses, strict=True):
            for use in range(uses):
                x = x.to(layer.weight.dtype).tanh()
                reentrant = self.recompute == "reentrant"
                recomputed = self.recompute and use == 0
                x = checkpoint(layer, x, use_reentrant=reentrant) if recomputed else layer(x)
        return x


class TiedWeights(nn.Module):
    """A language model in small: its first weight is its last one, too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, WIDTH, dtype=torch.float64)
        self.middle = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.head = nn.Linear(WIDTH, 9, bias=False, dtype=torch.float64)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        tokens = x.abs().mul(10).long() % 9
        return self.head(self.middle(self.embedding(tokens)).tanh()).mean(-1)


class OddTensors(nn.Module):
    """A number, an empty tensor, gaps in memory, another order of dimensions, complex and frozen ones."""

    def __init__(self):
        super().__init__()
        self.number = nn.Parameter(torch.randn((), dtype=torch.float64))
        self.empty = nn.Parameter(torch.zeros(0, 3, dtype=torch.float64))
        self.permuted = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.float64).T)
        self.with_gaps = nn.Parameter(torch.randn(WIDTH, 2 * WIDTH, dtype=torch.float64)[:, ::2])
        self.complex = nn.Parameter(torch.randn(WIDTH, dtype=torch.complex128))
        self.convolution = nn.Conv2d(2, 3, 2, dtype=torch.float64).to(memory_format=torch.channels_last)
        self.frozen_and_last = nn.Parameter(torch.ones(2, dtype=torch.float32), requires_grad=False)

    def forward(self, x):
        y = (x @ self.permuted).tanh() @ self.with_gaps * self.number + self.empty.sum()
        z = (y * self.complex).abs()
        return self.convolution(z.reshape(-1, 2, 3, 1).expand(-1, -1, -1, 3)).flatten(1)


MODULES = {
    "chain": Chain,
    "used twice": lambda: Chain((1, 2, 1)),
    "used twice, recomputed": lambda: Chain((1, 2, 2), "not reentrant"),
    "used twice, recomputed, reentrant": lambda: Chain((1, 2, 2), "reentrant"),
    "not all used": lambda: Chain((1, 0, 1)),
    "mixed types": lambda: Chain(dtypes=(torch.float64, torch.float32, torch.float64)),
    "tied weights": TiedWeights,
    "odd tensors": OddTensors,
}  # fmt: skip
ALL_REDUCES = {"ring": None, "star": all_reduce.star, "torch's own": dist.all_reduce}


def trained(name, *, steps=3, micro_batches=1, no_sync=True, set_to_none=True, max_norm=None, **settings):
    """How far the weights of this rank are from those of one process after some steps, and what is None.

    The inputs of each rank differ, and so do its first weights.
    """
    rank, count = dist.get_rank(), dist.get_world_size()
    module = MODULES[name]()
    settings["all_reduce"] = ALL_REDUCES[settings.pop("all_reduce", "ring")]
    model = overlap.BucketedDataParallel(module, **settings)
    alone = copy.deepcopy(module)
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.01, weight_decay=0.1) for each in (module, alone)]
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        inputs = torch.randn(micro_batches, count, 4, WIDTH, generator=generator, dtype=torch.float64)
        for k in range(micro_batches):
            with model.no_sync() if no_sync and k < micro_batches - 1 else torch.enable_grad():
                (loss(model(inputs[k, rank])) / micro_batches).backward()
            (loss(alone(inputs[k].flatten(0, 1))) / micro_batches).backward()
        model.finish()
        nones = [[each.grad is None for each in one.parameters()] for one in (module, alone)]
        assert nones[0] == nones[1]
        for optimizer, trained in zip(optimizers, (module, alone), strict=True):
            if max_norm is not None:
                nn.utils.clip_grad_norm_(trained.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none)
    return furthest(module, alone)


def loss(outputs):
    return outputs.double().square().sum(-1).mean()


def furthest(module, other):
    return max(
        ((one - two).norm() / (two.norm() + 1e-300)).item()
        for one, two in zip(module.parameters(), other.parameters(), strict=True)
        if one.numel()
    )


def tried(name, settings):
    return trained(name, **settings)


SETTINGS = [
    {},
    {"bucket_mb": TINY, "first_bucket_mb": TINY / 3},
    {"bucket_mb": TINY, "overlap": False},
    {"bucket_mb": 1e-6, "set_to_none": False, "all_reduce": "torch's own"},
    {"bucket_mb": TINY, "micro_batches": 3, "max_norm": 0.1, "all_reduce": "star"},
    {"bucket_mb": TINY, "micro_batches": 3, "no_sync": False},
    {"bucket_mb": math.inf, "first_bucket_mb": math.inf, "micro_batches": 2, "overlap": False},
]


def limit(name):
    """float32 in the middle rounds; sums in another order do in float64."""
    return 1e-5 if name == "mixed types" else 1e-11


@pytest.mark.parametrize("count", [1, 2, 3, pytest.param(4, marks=pytest.mark.long),
                                   pytest.param(5, marks=pytest.mark.long),
                                   pytest.param(8, marks=pytest.mark.long)])  # fmt: skip
def test_trains_as_one_process_does(count):
    cases = list(itertools.product(MODULES, SETTINGS))
    for (name, settings), of_ranks in zip(cases, run_cases(tried, count, cases), strict=True):
        assert max(of_ranks) <= limit(name), (name, settings, of_ranks)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_trains_as_one_process_does_with_random_settings(seed):
    draw = random.Random(seed)
    cases = [(draw.choice(list(MODULES)), random_settings(draw)) for _ in range(60)]
    for count in (2, 3):
        for (name, settings), of_ranks in zip(cases, run_cases(tried, count, cases), strict=True):
            assert max(of_ranks) <= limit(name), (count, name, settings, of_ranks)


def random_settings(draw):
    return {
        "bucket_mb": 10 ** draw.uniform(-6, -3), "first_bucket_mb": 10 ** draw.uniform(-6, -3),
        "overlap": draw.random() < 0.8, "micro_batches": draw.randint(1, 4), "no_sync": draw.random() < 0.5,
        "set_to_none": draw.random() < 0.5, "max_norm": draw.choice([None, 0.05]),
        "steps": draw.randint(1, 4), "all_reduce": draw.choice(list(ALL_REDUCES)),
    }  # fmt: skip
