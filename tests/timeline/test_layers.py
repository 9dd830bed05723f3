"""The marks of a layer stand where it begins and ends to compute, as a clock that counts operations shows."""

import itertools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib.timeline.layers import LayerMarks
from course_lib.transformer import GPT, TransformerConfig

WAYS = ("forward", "backward")


class Clock:
    """Each mark is later than all before; operations of ``Layer`` are noted with their moments."""

    def __init__(self):
        self.moments = itertools.count()
        self.noted = {}

    def __call__(self):
        return next(self.moments)

    def note(self, name):
        self.noted.setdefault(name, []).append(next(self.moments))


class Multiply(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, clock, name):
        clock.note(f"forward {name}")
        context.save_for_backward(x, weight)
        context.clock, context.name = clock, name
        return x * weight

    @staticmethod
    def backward(context, gradient):
        context.clock.note(f"backward {context.name}")
        x, weight = context.saved_tensors
        return gradient * weight, (gradient * x).sum(0), None, None


class Layer(nn.Module):
    def __init__(self, clock, name):
        super().__init__()
        self.weight, self.clock, self.name = nn.Parameter(torch.ones(3)), clock, name

    def forward(self, x):
        return Multiply.apply(x, self.weight, self.clock, self.name)


def record(clock, module, *inputs, layers=None, passes=1):
    marks = LayerMarks(module, layers, clock)
    for _ in range(passes):
        total(module(*inputs)).backward()
    marks.remove()
    return list(marks.spans())


def total(output):
    return output.sum()


def assert_around(spans, clock):
    """Each span holds its layer's operation and no other one's, and no two cross."""
    found = {}
    for label, start, end in spans:
        found.setdefault(label, []).append((start, end))
    assert found.keys() == clock.noted.keys()
    for label, moments in clock.noted.items():
        held = [[m for m in sum(clock.noted.values(), []) if start < m < end] for start, end in found[label]]
        assert sorted(held) == [[moment] for moment in moments], label


class Chain(nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.layers = nn.ModuleList(Layer(clock, f"layers.{i}") for i in range(3))
        self.last = Layer(clock, "last")

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("passes", [1, 3])
def test_each_span_holds_its_layers_operation_alone(needs_gradient, passes):
    clock = Clock()
    spans = record(clock, Chain(clock), torch.ones(2, 3, requires_grad=needs_gradient), passes=passes)
    assert_around(spans, clock)
    assert len(spans) == 8 * passes


def test_a_frozen_layer_goes_back_only_if_there_is_something_before_it():
    clock = Clock()
    module = Chain(clock)
    for layer in module.layers[0], module.layers[2]:
        layer.weight.requires_grad_(False)
    spans = record(clock, module, torch.ones(2, 3))
    assert_around(spans, clock)
    assert [label for label, *_ in spans if "backward" in label] == [
        "backward last", "backward layers.2", "backward layers.1"]  # fmt: skip


class Branches(nn.Module):
    """Two layers beside each other, and a sum."""

    def __init__(self, clock):
        super().__init__()
        self.first, self.left, self.right = (Layer(clock, name) for name in ("first", "left", "right"))

    def forward(self, x):
        x = self.first(x)
        return self.left(x) + self.right(x)


class Shared(nn.Module):
    """One layer three times, and one whose weight is the first one's."""

    def __init__(self, clock):
        super().__init__()
        self.first, self.tied = Layer(clock, "first"), Layer(clock, "tied")
        self.tied.weight = self.first.weight

    def forward(self, x):
        return self.tied(self.first(self.first(self.first(x))))


class InPlace(nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.first, self.last = Layer(clock, "first"), Layer(clock, "last")

    def forward(self, x):
        x = self.first(x)
        x += 1
        x = self.last(x)
        return x.relu_()


class Structures(nn.Module):
    class Pair(nn.Module):
        def __init__(self, clock):
            super().__init__()
            self.inner = Layer(clock, "pair")

        def forward(self, *, inputs):
            (x,) = inputs["x"]
            return {"a": self.inner(x), "b": (x.detach(), 3)}

    def __init__(self, clock):
        super().__init__()
        self.pair, self.last = self.Pair(clock), Layer(clock, "last")

    def forward(self, x):
        return self.last(self.pair(inputs={"x": [x]})["a"])


@pytest.mark.parametrize("kind", [Branches, Shared, InPlace, Structures])
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_other_shapes_of_modules(kind, needs_gradient):
    clock = Clock()
    assert_around(record(clock, kind(clock), torch.ones(2, 3).requires_grad_(needs_gradient)), clock)


class Checkpointed(nn.Module):
    def __init__(self, clock, reentrant):
        super().__init__()
        self.first, self.middle, self.last = (Layer(clock, name) for name in ("first", "middle", "last"))
        self.reentrant = reentrant

    def forward(self, x):
        x = checkpoint(self.middle, self.first(x), use_reentrant=self.reentrant)
        return self.last(x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_says_so(reentrant):
    clock = Clock()
    spans = record(clock, Checkpointed(clock, reentrant), torch.ones(2, 3))
    labels = [label for label, *_ in spans]
    assert labels.count("forward middle") == labels.count("recompute middle") == 1
    (again,) = [(start, end) for label, start, end in spans if label == "recompute middle"]
    forward = clock.noted["forward middle"]
    assert again[0] < forward[1] < again[1]
    back = [(start, end) for label, start, end in spans if label == "backward middle"]
    assert sum(start < clock.noted["backward middle"][0] < end for start, end in back) == 1


def test_chosen_layers_may_lie_within_one_another():
    clock = Clock()
    module = nn.Sequential(nn.Sequential(Layer(clock, "0.0"), Layer(clock, "0.1")), Layer(clock, "1"))
    spans = record(clock, module, torch.ones(2, 3), layers=["0", "0.0", "0.1"])
    times = {label: (start, end) for label, start, end in spans}
    assert times.keys() == {f"{way} {name}" for way in WAYS for name in ("0", "0.0", "0.1")}
    for way in WAYS:
        outer, *inner = (times[f"{way} {name}"] for name in ("0", "0.0", "0.1"))
        for (start, end), name in zip(inner, ("0.0", "0.1"), strict=True):
            assert outer[0] <= start < clock.noted[f"{way} {name}"][0] < end <= outer[1]
        assert not outer[0] < clock.noted[f"{way} 1"][0] < outer[1]


def test_the_layers_are_the_children_and_the_items_of_lists():
    config = TransformerConfig(layers=2, hidden=8, heads=2, vocab=11, context=4)
    spans = record(Clock(), GPT(config), torch.tensor([[1, 2, 3]]))
    names = ["token_embedding", "position_embedding", "layers.0", "layers.1", "norm", "head"]
    backward = [label.split()[1] for label, *_ in spans if label.startswith("backward")]
    assert sorted(backward) == sorted(names)
    assert backward[:4] == ["head", "norm", "layers.1", "layers.0"]
    times = {label: (start, end) for label, start, end in spans}
    # The head's weight is the embedding's, so that its gradient is complete at the very end only.
    assert times["backward head"][1] <= times["backward norm"][0]
    assert max(end for _, _, end in spans) == times["backward token_embedding"][1]


@pytest.mark.parametrize("layers", [["layers.7"], [""], ["layers", "nothing"]])
def test_unknown_names_are_refused_with_those_there_are(layers):
    with pytest.raises(ValueError, match=f"layers has '{layers[-1]}': expected names .* 'layers.0', 'layers"):
        LayerMarks(Chain(Clock()), layers, Clock())


def test_nothing_is_left_on_the_module_or_the_tensors():
    clock = Clock()
    module = Chain(clock)
    marks = LayerMarks(module, None, clock)
    output = module(torch.ones(2, 3))
    marks.remove()
    output.sum().backward()
    assert [label for label, *_ in marks.spans() if "backward" in label] == []
    for layer in module.modules():
        assert not layer._forward_hooks and not layer._forward_pre_hooks
    assert not any(parameter._post_accumulate_grad_hooks for parameter in module.parameters())


def test_without_gradients_only_forward_is_recorded():
    clock = Clock()
    marks = LayerMarks(module := Chain(clock), None, clock)
    with torch.no_grad():
        module(torch.ones(2, 3))
    assert {label for label, *_ in marks.spans()} == {
        "forward layers.0", "forward layers.1", "forward layers.2", "forward last"}  # fmt: skip
