"""Training steps are recorded inside ranks, and compute what they compute without a recorder."""

import copy
import functools
import math
import threading
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from course_lib import all_reduce, data_parallel, overlap, ranks, timeline
from course_lib.timeline import exposed_seconds, hidden_seconds
from tests.many_cases import run_cases

STEPS = 3
WAITING = ("ours, late", "flat", "plain", "waits in the hook")
BESIDE = ("ours", "DDP", "DDP, ring", "plain, asynchronous")
KINDS = (*WAITING, *BESIDE)


class Until(nn.Module):
    """Goes backward only when something has begun: so that there is no race about what was first."""

    def __init__(self, begun):
        super().__init__()
        self.begun = begun

    def forward(self, x):
        return _Until.apply(x, self.begun)


class _Until(torch.autograd.Function):
    @staticmethod
    def forward(context, x, begun):
        context.begun = begun
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        if context.begun:
            assert context.begun.wait(timeout=50)
        return gradient, None


def train(kind, recorded):
    """Spans and weights after some steps; the first step is not recorded."""
    torch.set_num_threads(1)
    begun = threading.Event() if kind in BESIDE else None
    layers = nn.Linear(64, 128), Until(begun), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
    module = nn.Sequential(*layers)
    record = timeline.Recorder()
    model, finish = wrapped(kind, module, record if recorded else nothing, begun)
    optimizer = torch.optim.AdamW(module.parameters())
    for step in range(STEPS):
        inputs = torch.randn(32, 64)
        if begun:
            begun.clear() if step else begun.set()  # in its first step, DDP has one bucket for all
        shown = record if recorded and step else nothing
        with shown.step(module):
            model(inputs).square().mean().backward()
            with shown("idle", "wait"):
                finish()
            with shown("optimizer state", "optimizer"):
                optimizer.step()
                optimizer.zero_grad()
    return record.spans, [parameter.detach().clone() for parameter in module.parameters()]


def with_a_loss_that_is_summed_in_between(all_reduce):
    """The step's own messages would meet the buckets', if these were not in a group of their own."""
    record = timeline.Recorder()
    module = nn.Sequential(*(nn.Linear(3, 3) for _ in range(6)))
    model = overlap.BucketedDataParallel(module, 1e-6, 1e-6, all_reduce=record.all_reduce(all_reduce))
    expected = copy.deepcopy(module)
    inputs = torch.ones(2, 3) * (dist.get_rank() + 1)
    with record.step(module):
        loss = model(inputs).square().mean()
        loss.backward()
        all_reduce(loss.detach().clone())
        model.finish()
    expected(inputs).square().mean().backward()
    data_parallel.average_gradients(expected)
    pairs = zip(module.parameters(), expected.parameters(), strict=True)
    return max((one.grad - other.grad).abs().max().item() for one, other in pairs)


@pytest.mark.parametrize("all_reduce", [all_reduce.ring, dist.all_reduce])
def test_what_is_recorded_is_in_a_group_of_its_own_as_it_would_be_without(all_reduce):
    assert max(ranks.run(with_a_loss_that_is_summed_in_between, 2, all_reduce, device="cpu")) < 1e-6


def ending_after_its_step():
    record = timeline.Recorder()
    begun, may_end = threading.Event(), threading.Event()

    def slow(tensor):
        begun.set()
        may_end.wait(30)

    reduce = record.all_reduce(slow)
    with record.step():
        thread = threading.Thread(target=reduce, args=[torch.ones(1)])
        thread.start()
        begun.wait(30)
    may_end.set()
    thread.join()
    return [(span.label, span.step) for span in record.spans]


def test_a_reduction_belongs_to_the_step_in_which_it_began():
    assert ranks.run(ending_after_its_step, 1, device="cpu") == [[("bucket 0", 0)]]


def telling(begun, function):
    """``function``, which tells when it is called."""

    @functools.wraps(function)
    def told(*args, **kwargs):
        if begun:
            begun.set()
        return function(*args, **kwargs)

    return told


class Nothing:
    """Has a recorder's methods, and records nothing."""

    def __call__(self, *_):
        return nullcontext()

    step = __call__

    def all_reduce(self, function):
        return function

    comm_hook = all_reduce


nothing = Nothing()


def wrapped(kind, module, record, begun):
    ring, torchs, hook = (telling(begun, each) for each in (all_reduce.ring, dist.all_reduce, allreduce_hook))
    bucket_mb = 0.03
    if kind.startswith("DDP"):
        model = DistributedDataParallel(module, bucket_cap_mb=bucket_mb)
        hook = overlap.comm_hook(record.all_reduce(ring)) if kind == "DDP, ring" else record.comm_hook(hook)
        model.register_comm_hook(dist.group.WORLD, hook)
        return model, lambda: None
    if kind in ("ours", "ours, late", "flat"):
        most = math.inf if kind == "flat" else bucket_mb
        model = overlap.BucketedDataParallel(module, most, most, kind == "ours", record.all_reduce(ring))
        return model, model.finish
    data_parallel.broadcast_parameters(module)
    if kind == "plain":
        recorded = record.all_reduce(ring)
        return module, lambda: data_parallel.average_gradients(module, recorded)
    recorded = record.all_reduce(torchs)
    works = []

    def reduce(parameter):
        parameter.grad /= dist.get_world_size()
        works.append(recorded(parameter.grad, async_op=True))
        if kind == "waits in the hook":
            works.pop().wait()

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    return module, lambda: [works.pop(0).wait() for _ in [*works]]


@pytest.fixture(scope="module")
def results():
    cases = [(kind, recorded) for kind in KINDS for recorded in (True, False)]
    return dict(zip(cases, run_cases(train, 2, cases), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_recording_changes_no_bit(results, kind):
    for (_, weights), (spans, without) in zip(results[kind, True], results[kind, False], strict=True):
        assert spans == []
        assert all(torch.equal(a, b) for a, b in zip(weights, without, strict=True))


BUCKETS = {"ours": 2, "ours, late": 2, "flat": 1, "DDP": 2, "DDP, ring": 2}  # else one for each parameter


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_step_is_there_on_every_rank(results, kind):
    for rank, (spans, _) in enumerate(results[kind, True]):
        assert {span.rank for span in spans} == {rank}
        assert {span.step for span in spans} == set(range(STEPS - 1))
        assert [span.start for span in spans] == sorted(span.start for span in spans)
        for step in range(STEPS - 1):
            labels = [span.label for span in spans if span.step == step and span.kind == "compute"]
            assert labels[:5] == [f"forward {layer}" for layer in range(5)]
            assert labels[5:] == [f"backward {layer}" for layer in reversed(range(5))]
            reductions = [span for span in spans if span.step == step and span.lane == "communication"]
            assert {span.kind for span in reductions} == {"communication"}
            assert [span.label for span in reductions] == [f"bucket {i}" for i in range(BUCKETS.get(kind, 6))]
            (optimizer,) = [s for s in spans if s.step == step and s.kind == "optimizer state"]
            assert all(span.end <= optimizer.start for span in reductions)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ranks_are_in_a_reduction_before_one_comes_out(results, kind):
    """False if their clocks were not the same."""
    (first, _), (second, _) = results[kind, True]
    lanes = [[span for span in spans if span.lane == "communication"] for spans in (first, second)]
    for one, other in zip(*lanes, strict=True):
        assert (one.label, one.step) == (other.label, other.step)
        assert max(one.start, other.start) < min(one.end, other.end)


@pytest.mark.parametrize("kind", WAITING)
def test_what_waits_hides_nothing(results, kind):
    for spans, _ in results[kind, True]:
        (hidden,), (exposed,) = hidden_seconds(spans).values(), exposed_seconds(spans).values()
        # Nearly all is exposed; a busy machine may stop a rank just between a start and its wait.
        assert hidden < exposed


@pytest.mark.parametrize("kind", BESIDE)
def test_a_reduction_beside_the_backward_pass_begins_in_it(results, kind):
    for spans, _ in results[kind, True]:
        for step in range(STEPS - 1):
            of_step = [span for span in spans if span.step == step]
            first = next(span for span in of_step if span.label == "bucket 0")
            assert first.start < max(span.end for span in of_step if span.label == "backward 1")


def misuse():
    record, found = timeline.Recorder(), []
    reduce = record.all_reduce(all_reduce.ring)
    reduce(torch.ones(2))  # not in a step
    found.append(record.spans)
    with record.step():
        try:
            with record.step():
                pass
        except RuntimeError as error:
            found.append(str(error))
        reduce(torch.ones(2))
    with record.step():
        reduce(torch.ones(2))
    found.append([(span.label, span.step, span.lane) for span in record.spans])
    return found


def test_reductions_are_recorded_in_steps_and_counted_in_each():
    ((outside, message, inside),) = ranks.run(misuse, 1, device="cpu")
    assert outside == []
    assert message == "step() inside step(): a step must end before the next one begins"
    assert [each for each in inside if each[2] == "communication"] == [
        ("bucket 0", 0, "communication"), ("bucket 0", 1, "communication")]  # fmt: skip
    assert [each for each in inside if each[2] == "compute"] == [
        ("wait", 0, "compute"), ("wait", 1, "compute")]  # fmt: skip
