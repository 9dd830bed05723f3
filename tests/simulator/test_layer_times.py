"""Layers are timed where they are, and all that a step takes is some layer's."""

import time

import pytest
import torch
from torch import nn

from course_lib import layer_times
from course_lib.transformer import GPT, TransformerConfig
from tests.many_cases import run_cases

NAP = 0.02  # seconds; a clock can be late, but never early


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, x, forward, backward):
        time.sleep(forward)
        context.backward_seconds = backward
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.backward_seconds)
        return gradient, None, None


class Nap(nn.Module):
    """One weight; it takes so many naps forward and backward."""

    def __init__(self, forward, backward):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.naps = forward * NAP, backward * NAP

    def forward(self, x):
        return Slow.apply(x * self.weight, *self.naps)


class Picture(nn.Module):
    """Parameters of its own, attention whose projection is no module that runs, and a frozen layer."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(4))
        self.attention = nn.MultiheadAttention(4, 2)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x = x + self.position
        return self.head(self.frozen(self.attention(x, x, x)[0]))


def timed(name):
    module = {
        "naps": lambda: nn.Sequential(Nap(1, 3), Nap(2, 1), Nap(0, 2)), "picture": Picture,
        "gpt": lambda: GPT(TransformerConfig(1, 8, 2, vocab=16, context=4)),
    }[name]()  # fmt: skip
    x = torch.zeros(1, 4, dtype=torch.long) if name == "gpt" else torch.ones(3, 4)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    found = layer_times.measure(module, lambda: module(x).sum(), optimizer, repeats=3)
    return found, sum(4 * each.numel() for each in module.parameters() if each.requires_grad)


@pytest.fixture(scope="module")
def results():
    names = ["naps", "picture", "gpt"]
    return dict(zip(names, run_cases(timed, 2, [(name,) for name in names]), strict=True))


def test_each_rank_gets_the_same_answer_and_no_byte_is_lost(results):
    for (found, total), other in results.values():
        assert other == (found, total)
        assert sum(sum(layer.parameter_bytes) for layer in found.layers) == total
        assert found.optimizer_seconds > 0


def test_a_layers_time_is_its_own(results):
    (found, _), _ = results["naps"]
    assert [layer.name for layer in found.layers] == ["0", "1", "2"]
    for layer, forward, backward in zip(found.layers, (1, 2, 0), (3, 1, 2), strict=True):
        assert layer.forward_seconds >= forward * NAP and layer.backward_seconds >= backward * NAP


def test_a_head_with_a_tied_weight_is_a_layer_without_bytes(results):
    (found, _), _ = results["gpt"]
    by_name = {layer.name: layer for layer in found.layers}
    assert list(by_name)[:2] == ["token_embedding", "position_embedding"] and list(by_name)[-1] == "head"
    assert by_name["head"].parameter_bytes == () and by_name["head"].backward_seconds > 0
    assert by_name["token_embedding"].parameter_bytes == (4 * 16 * 8,)


def test_parameters_of_modules_that_do_not_run_count_for_the_ones_around_them(results):
    (found, _), _ = results["picture"]
    assert {layer.name: layer.parameter_bytes for layer in found.layers} == {
        "module": (16, 64, 16), "attention": (192, 48, 64, 16), "frozen": (), "head": (16, 4)}  # fmt: skip


def test_a_module_that_can_not_be_trained_is_refused():
    with pytest.raises(ValueError, match="module has no trainable parameters: expected one that can be"):
        layer_times.measure(nn.ReLU(), lambda: torch.zeros(()), None)
