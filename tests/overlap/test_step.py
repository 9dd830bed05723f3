"""What happens within a step of BucketedDataParallel: when buckets start, what is sent, what is refused."""

import contextlib
import copy
import gc
import itertools
import pickle
import threading
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib import data_parallel, overlap, ranks
from course_lib.all_reduce import ring
from course_lib.noise_scale import Meter
from tests.many_cases import run_cases

TINY = 1e-6  # MiB: a bucket for each parameter


def run(function, count, *args, **kwargs):
    return ranks.run(function, count, *args, device="cpu", **kwargs)


class Noted:
    """An all-reduce that notes its calls: how many elements, on which thread."""

    def __init__(self):
        self.calls = []

    def __call__(self, tensor):
        self.calls.append((tensor.numel(), threading.current_thread().name))
        ring(tensor)


def layers(count=3, dtype=torch.float64):
    return nn.Sequential(*(nn.Linear(3, 3, dtype=dtype) for _ in range(count)))


def inputs(seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(10 * seed + dist.get_rank())
    return torch.randn(4, 3, generator=generator, dtype=dtype)


def furthest(module, other, of=lambda parameter: parameter):
    return max(
        (of(one) - of(two)).abs().max().item()
        for one, two in zip(module.parameters(), other.parameters(), strict=True)
    )


def gradient(parameter):
    return parameter.grad


# --- when buckets start, and what they hold ---


def a_step_with_notes(overlap_on):
    noted = Noted()
    model = overlap.BucketedDataParallel(layers(), TINY, TINY, overlap=overlap_on, all_reduce=noted)
    model(inputs()).sum().backward()
    if overlap_on:
        model._buckets[-2].wait()
    before_finish = len(noted.calls)
    assert model.started == before_finish
    model.finish()
    rows = {bucket.row.untyped_storage().data_ptr() for bucket in model._buckets}
    in_rows = [each.grad.untyped_storage().data_ptr() in rows for each in model.parameters()]
    return model.buckets, before_finish, noted.calls, in_rows


def test_full_buckets_start_in_the_backward_pass_and_the_last_one_in_finish():
    for buckets, before_finish, calls, in_rows in run(a_step_with_notes, 2, True):
        names = [f"parameter {layer}.{kind}" for layer in (2, 1, 0) for kind in ("bias", "weight")]
        assert buckets == [[name] for name in names]
        assert before_finish == 5
        assert [elements for elements, _ in calls] == [4, 10, 4, 10, 4, 10 + 10]  # one flag each, ten at last
        assert {thread for _, thread in calls} == {"communication"}
        assert all(in_rows)


def test_without_overlap_all_of_them_start_in_finish():
    for _, before_finish, calls, _ in run(a_step_with_notes, 2, False):
        assert before_finish == 0 and len(calls) == 6
        assert {thread for _, thread in calls} == {"MainThread"}


class InAnotherOrder(nn.Module):
    """Its last layer is used first, on one rank."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        first, second = (self.first, self.second) if dist.get_rank() else (self.second, self.first)
        return second(first(x))


def calls_in_another_order():
    noted = Noted()
    model = overlap.BucketedDataParallel(InAnotherOrder(), TINY, TINY, all_reduce=noted)
    for step in range(2):
        model(inputs(step, torch.float32)).sum().backward()
        model.finish()
    data_parallel.assert_in_step(model)
    return [elements for elements, _ in noted.calls]


def test_ranks_start_buckets_in_the_same_order_whatever_is_ready_first():
    assert run(calls_in_another_order, 2) == [[4, 10, 4, 10 + 6] * 2] * 2


# --- unused parameters ---


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(3, 3, dtype=torch.float64) for _ in range(4))

    def forward(self, x, used):
        return sum(self.branches[branch](x) for branch in used)


USED = [  # by step, then by rank; None: this rank has nothing to compute
    [(0, 1), (0, 1), (0, 1)],
    [(0,), (1,), (0, 2)],
    [(2, 0), None, (3,)],
    [(1,), (1,), None],
]  # fmt: skip


def train_branches(bucket_mb, set_to_none):
    module = Branches()
    noted = Noted()
    model = overlap.BucketedDataParallel(module, bucket_mb, all_reduce=noted)
    alone = copy.deepcopy(module)
    count = dist.get_world_size()
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.1) for each in (module, alone)]
    for step, of_ranks in enumerate(USED):
        for rank, used in enumerate(of_ranks[:count]):
            x = torch.randn(2, 3, generator=torch.Generator().manual_seed(10 * step + rank)).double()
            if used is not None:
                (alone(x, used).square().sum() / count).backward()
                if rank == dist.get_rank():
                    model(x, used).square().sum().backward()
        model.finish()
        assert [each.grad is None for each in module.parameters()] == [
            each.grad is None for each in alone.parameters()
        ]
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none)
    data_parallel.assert_in_step(module)
    return furthest(module, alone), len(noted.calls) / len(USED), len(model.buckets)


@pytest.mark.parametrize("count", [2, 3])
def test_unused_parameters_are_none_or_averaged_with_zero(count):
    cases = [(bucket_mb, set_to_none) for bucket_mb in (TINY, 1e-4, 25) for set_to_none in (True, False)]
    for of_ranks in run_cases(train_branches, count, cases):
        for difference, calls, buckets in of_ranks:
            assert difference < 1e-12 and calls == buckets


# --- gradients that come in pieces ---


def passes_differ_by_rank():
    """Rank 0 goes backward twice in the first step, then as often as the others."""
    module = layers()
    noted = Noted()
    model = overlap.BucketedDataParallel(module, TINY, TINY, all_reduce=noted)
    found, calls = [], []
    for step, passes in enumerate([2 if dist.get_rank() == 0 else 1, 2, 2, 1]):
        expected = copy.deepcopy(module)
        for each in range(passes):
            model(inputs(2 * step + each)).square().sum().backward()
            expected(inputs(2 * step + each)).square().sum().backward()
        model.finish()
        data_parallel.average_gradients(expected)
        found.append(furthest(module, expected, gradient))
        module.zero_grad()
        calls.append(len(noted.calls))
        noted.calls.clear()
    return max(found), calls


@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_in_several_pieces_are_averaged_and_expected_in_the_next_step(count):
    for rank, (difference, calls) in enumerate(run(passes_differ_by_rank, count)):
        assert difference < 1e-13, rank
        in_second_step = 6 if count == 1 else 11  # rank 1 did not expect two
        assert calls == [11, in_second_step, 6, 6]


class Aborts(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ArithmeticError("in the middle of the backward pass")


def after_an_exception(where, set_to_none):
    module = layers()
    model = overlap.BucketedDataParallel(module, TINY, TINY)
    expected = copy.deepcopy(module)
    try:
        if where == "no_sync":
            with model.no_sync():
                model(inputs(1)).sum().backward()
                raise ArithmeticError
        hidden = Aborts.apply(module[0](inputs(1))) if where == "backward" else module[0](inputs(1))
        module[2](module[1](hidden)).sum().backward()
        if where == "before finish":
            raise ArithmeticError
    except ArithmeticError:
        module.zero_grad(set_to_none)
    for _ in range(2):
        model(inputs(2)).square().sum().backward()
        model.finish()
        expected(inputs(2)).square().sum().backward()
        data_parallel.average_gradients(expected)
    return furthest(module, expected, gradient)


def test_a_step_that_was_given_up_leaves_nothing_behind():
    cases = list(itertools.product(("no_sync", "backward", "before finish"), (True, False)))
    for case, of_ranks in zip(cases, run_cases(after_an_exception, 2, cases), strict=True):
        assert max(of_ranks) < 1e-13, case


def given_up_and_not_used_again():
    module = Branches()
    model = overlap.BucketedDataParallel(module, TINY, TINY)
    model(inputs(1), (0, 1, 2, 3)).sum().backward()
    module.zero_grad()
    model(inputs(2), (1,)).sum().backward()
    model.finish()
    return [branch.weight.grad is None for branch in module.branches]


def test_gradients_that_were_cleared_do_not_come_back():
    assert run(given_up_and_not_used_again, 2) == [[True, False, True, True]] * 2


# --- what else communicates ---


def two_modules(all_reduce):
    """Two wrapped modules with one loss, whose value is summed in between: each has its own mean."""
    both = [layers(6), layers(6)]
    models = [overlap.BucketedDataParallel(each, TINY, TINY, all_reduce=all_reduce) for each in both]
    expected = copy.deepcopy(both)
    found = []
    for step in range(4):
        loss = sum(model(inputs(step)).square().mean() for model in models)
        loss.backward()
        dist.all_reduce(loss.detach())
        ring(loss.detach())
        for model in models:
            model.finish()
        sum(each(inputs(step)).square().mean() for each in expected).backward()
        for ours, theirs in zip(both, expected, strict=True):
            data_parallel.average_gradients(theirs)
            found.append(furthest(ours, theirs, gradient))
            ours.zero_grad()
            theirs.zero_grad()
    return max(found)


@pytest.mark.parametrize("count", [2, 3])
def test_two_modules_and_the_step_itself_do_not_meet_each_others_messages(count):
    for of_ranks in run_cases(two_modules, count, [(None,), (dist.all_reduce,)]):
        assert max(of_ranks) < 1e-13


def two_in_ddp(all_reduce):
    both = [layers(6), layers(6)]
    ddps = [DistributedDataParallel(each, bucket_cap_mb=1e-4, find_unused_parameters=True) for each in both]
    for ddp in ddps:
        ddp.register_comm_hook(None, overlap.comm_hook(all_reduce))
    expected = copy.deepcopy(both)
    for step in range(3):
        for pair in (ddps, expected):
            sum(each(inputs(step)).square().mean() for each in pair).backward()
    for each in expected:
        data_parallel.average_gradients(each)
    return max(furthest(ours, theirs, gradient) for ours, theirs in zip(both, expected, strict=True))


def test_two_modules_in_ddp_share_a_channel():
    for of_ranks in run_cases(two_in_ddp, 2, [(None,), (dist.all_reduce,)]):
        assert max(of_ranks) < 1e-12


def asynchronous(tensor):
    return dist.all_reduce(tensor, async_op=True)


def elsewhere(tensor):
    return tensor.clone()


def with_all_reduce(all_reduce, overlap_on):
    module = layers()
    model = overlap.BucketedDataParallel(module, TINY, overlap=overlap_on, all_reduce=all_reduce)
    expected = copy.deepcopy(module)
    for each in (model, expected):
        each(inputs()).square().sum().backward()
    data_parallel.average_gradients(expected)
    error = error_of(model.finish)
    return error, furthest(module, expected, gradient) if error == "no error" else None


def test_an_all_reduce_that_has_only_started_is_waited_for_and_one_out_of_place_refused():
    cases = [(all_reduce, on) for all_reduce in (asynchronous, elsewhere) for on in (True, False)]
    for (all_reduce, _), of_ranks in zip(cases, run_cases(with_all_reduce, 3, cases), strict=True):
        for error, difference in of_ranks:
            if all_reduce is asynchronous:
                assert error == "no error" and difference < 1e-13
            else:
                assert "all_reduce returned another tensor" in error


def calls_with_autograd_grad():
    noted = Noted()
    module = layers()
    model = overlap.BucketedDataParallel(module, TINY, TINY, all_reduce=noted)
    for step in range(2):
        loss = model(inputs(step)).square().sum()
        loss.backward(retain_graph=True)
        torch.autograd.grad(loss, list(module.parameters()))
        model.finish()
    return len(noted.calls)


def test_gradients_that_are_only_asked_for_start_nothing():
    assert run(calls_with_autograd_grad, 2) == [12, 12]


# --- refused ---


def error_of(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def forgets_finish():
    module = layers()
    model = overlap.BucketedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    other = nn.Linear(1, 1)
    of_other = torch.optim.SGD(other.parameters(), lr=1.0)
    before = copy.deepcopy(module.state_dict())
    errors = []
    for context in (model.no_sync, torch.enable_grad):
        with context():
            model(inputs()).sum().backward()
        other(torch.ones(1)).sum().backward()
        errors.append(error_of(optimizer.step))
        of_other.step()  # is not its business
    unchanged = all(torch.equal(module.state_dict()[name], value) for name, value in before.items())
    model.finish()
    return *errors, unchanged, error_of(optimizer.step)


def test_a_forgotten_finish_is_said_before_any_weight_is_changed():
    for in_no_sync, forgotten, unchanged, finished in run(forgets_finish, 2):
        assert in_no_sync == forgotten and "RuntimeError: optimizer.step() before finish()" in forgotten
        assert unchanged and finished == "no error"


def step_by_closure(optimizer_class):
    module = layers()
    model = overlap.BucketedDataParallel(module)
    optimizer = optimizer_class(module.parameters(), lr=0.1)
    before = copy.deepcopy(module)

    def closure(finish):
        optimizer.zero_grad()
        loss = model(inputs()).square().mean()
        loss.backward()
        if finish:
            model.finish()
        return loss

    forgotten = error_of(optimizer.step, lambda: closure(finish=False))
    unchanged = furthest(module, before) == 0
    model.finish()
    finished = error_of(optimizer.step, closure=lambda: closure(finish=True))
    return forgotten, unchanged, finished, furthest(module, before) > 0


def test_a_finish_forgotten_in_a_closure_is_said():
    for of_ranks in run_cases(step_by_closure, 2, [(torch.optim.SGD,), (torch.optim.LBFGS,)]):
        for forgotten, unchanged, finished, moved in of_ranks:
            assert "optimizer.step() before finish()" in forgotten and unchanged
            assert finished == "no error" and moved


def refusals():
    wrap = overlap.BucketedDataParallel
    with_graph = wrap(layers(1))
    frozen = nn.Linear(2, 2).requires_grad_(False)
    on_rank_0 = nn.Linear(2, 2)
    on_rank_0.bias.requires_grad_(dist.get_rank() == 0)
    thawed = layers()
    thawed[0].requires_grad_(False)
    in_buckets = wrap(thawed)
    thawed[0].requires_grad_(True)
    in_buckets(inputs()).sum().backward()
    embedding = wrap(nn.Embedding(5, 2, sparse=True))
    model = wrap(layers())

    def finish_inside():
        with model.no_sync():
            with model.no_sync():
                pass
            model.finish()

    return {
        "ValueError: module='x': expected a torch.nn.Module": error_of(wrap, "x"),
        "nothing to train": error_of(wrap, frozen),
        "bucket_mb=0: expected": error_of(wrap, layers(), 0),
        "first_bucket_mb='1': expected": error_of(wrap, layers(), 1, "1"),
        "overlap='no': expected": error_of(wrap, layers(), overlap="no"),
        "all_reduce='ring': expected a function": error_of(wrap, layers(), all_reduce="ring"),
        "At the first difference: parameter bias": error_of(wrap, on_rank_0),
        "inside DistributedDataParallel": error_of(wrap, nn.Sequential(DistributedDataParallel(layers()))),
        "parameter 0.weight is in another BucketedDataParallel already": error_of(wrap, model.module),
        "inside BucketedDataParallel": error_of(data_parallel.average_gradients, model),
        "0.weight has a gradient, but no bucket": error_of(in_buckets.finish),
        "weight has a gradient of layout torch.sparse_coo: expected a dense one":
            error_of(embedding(torch.tensor([1])).sum().backward),
        "finish() inside no_sync()": error_of(finish_inside),
        "has a gradient with a graph":
            error_of(with_graph(inputs()).square().sum().backward, create_graph=True),
        "can't be copied or saved, only its module": error_of(copy.deepcopy, model),
    }  # fmt: skip


def test_refusals_say_why():
    for found in run(refusals, 2):
        for expected, error in found.items():
            assert expected in error


def clip(parameters):
    nn.utils.clip_grad_norm_(parameters, 1e-3)


def put_another(parameters):
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)


def put_other_data(parameters):
    for parameter in parameters:
        parameter.grad.data = torch.ones_like(parameter)


def changed_before_finish(change, bucket_mb):
    model = overlap.BucketedDataParallel(layers(), bucket_mb, bucket_mb)
    model(inputs()).sum().backward()
    change(list(model.parameters()))
    return error_of(model.finish)


def test_gradients_that_are_changed_before_finish_are_refused_whatever_the_size_of_buckets():
    cases = list(itertools.product((clip, put_another, put_other_data), (TINY, 25.0)))
    for case, errors in zip(cases, run_cases(changed_before_finish, 2, cases), strict=True):
        said = "was changed before it was averaged: call finish() before"
        assert all(said in each for each in errors), case


def there_and_back(module):
    for dtype in (torch.float16, torch.float64):
        module.to(dtype)


def change_after_finish(module):
    for parameter in module.parameters():
        parameter.grad.data = parameter.grad.data * 0.5


def changed_after_finish(change):
    """Of three steps, whether the gradients were those of the mean over the ranks."""
    module = layers()
    model = overlap.BucketedDataParallel(module, TINY, TINY)
    found = []
    for step in range(3):
        expected = copy.deepcopy(module)
        model(inputs(step)).square().sum().backward()
        model.finish()
        expected(inputs(step)).square().sum().backward()
        data_parallel.average_gradients(expected)
        found.append(furthest(module, expected, gradient))
        change(module)
        module.zero_grad()
    return max(found)


def test_gradients_that_were_put_elsewhere_after_finish_come_back_into_their_buckets():
    cases = [(there_and_back,), (change_after_finish,)]
    for case, of_ranks in zip(cases, run_cases(changed_after_finish, 2, cases), strict=True):
        assert max(of_ranks) < 1e-13, case


def given_up_on_rank_0(how, bucket_mb):
    model = overlap.BucketedDataParallel(layers(), bucket_mb, bucket_mb)
    if dist.get_rank() == 0:
        with model.no_sync() if how == "no_sync" else contextlib.nullcontext():
            model(inputs(1)).sum().backward()
        model.zero_grad()
    model(inputs(2)).sum().backward()
    return error_of(model.finish)


@pytest.mark.parametrize("count", [2, 5])
def test_what_one_rank_alone_gives_up_is_refused_on_all_if_others_have_it_in_their_mean(count):
    started, *others = run_cases(
        given_up_on_rank_0, count, [("backward", TINY), ("backward", 25.0), ("no_sync", TINY)]
    )
    said = "RuntimeError: some ranks have dropped gradients, as by zero_grad()"
    assert all(said in each for each in started)
    assert others == [("no error",) * count] * 2


def wrapped_and_saved():
    module = layers()
    model = overlap.BucketedDataParallel(module)
    model(inputs()).sum().backward()
    model.finish()
    return pickle.loads(pickle.dumps(module))


def test_a_wrapped_module_can_be_saved_and_sent():
    one, other = run(wrapped_and_saved, 2)
    assert furthest(one, other) == 0


def failing(tensor):
    raise ArithmeticError("the learner's all-reduce failed")


def with_failing_all_reduce():
    model = overlap.BucketedDataParallel(layers(), TINY, TINY, all_reduce=failing)
    model(inputs()).sum().backward()
    return error_of(model.finish)


def test_what_an_all_reduce_raises_comes_out_of_finish():
    assert set(run(with_failing_all_reduce, 2)) == {"ArithmeticError: the learner's all-reduce failed"}


def one_rank_does_not_come():
    model = overlap.BucketedDataParallel(layers(), TINY, TINY)
    if dist.get_rank() == 0:
        model(inputs()).sum().backward()
        model.finish()  # the line of rank 0
    dist.barrier()


def test_a_hang_names_the_rank_and_the_learners_line():
    with pytest.raises(ranks.RanksError) as hung:
        run(one_rank_does_not_come, 2, timeout=2)
    row = next(line for line in str(hung.value).splitlines() if line.strip().startswith("0"))
    assert "waits in recv of 2 float64 elements from rank 1" in row
    assert "model(inputs()).sum().backward()" in row or "model.finish()  # the line of rank 0" in row


# --- types, buffers, names, noise ---


def half_types(dtype):
    parameter = nn.Parameter(torch.zeros(3, dtype=dtype))
    holder = nn.ParameterList([parameter])
    model = overlap.BucketedDataParallel(holder)
    (parameter * torch.full((3,), 30000.0, dtype=dtype)).sum().backward()  # the sum overflows in float16
    model.finish()
    return parameter.grad.float().tolist(), str(parameter.grad.dtype)


def test_half_types_are_divided_before_the_sum():
    for dtype in (torch.float16, torch.bfloat16):
        expected = torch.full((3,), 30000.0).to(dtype).float().tolist(), str(dtype)
        assert run(half_types, 4, dtype) == [expected] * 4


def accumulate_in_float32():
    module = nn.Linear(3, 3, dtype=torch.bfloat16)
    for parameter in module.parameters():
        parameter.grad_dtype = torch.float32
    model = overlap.BucketedDataParallel(module)
    model(inputs(dtype=torch.bfloat16)).sum().backward()
    model.finish()
    return {str(parameter.grad.dtype) for parameter in module.parameters()}


def test_gradients_keep_a_type_of_their_own():
    assert run(accumulate_in_float32, 2) == [{"torch.float32"}] * 2


def batch_norm():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    torch.nn.init.normal_(module[1].running_mean)
    model = overlap.BucketedDataParallel(module)
    data_parallel.assert_in_step(module, buffers=True)
    model(inputs(dtype=torch.float32)).sum().backward()
    model.finish()
    data_parallel.assert_in_step(module)
    return list(model.module.state_dict()), module[1].running_mean.tolist()


def test_buffers_begin_equal_and_stay_each_ranks_own():
    (names, mean), (_, other_mean) = run(batch_norm, 2)
    assert names[0] == "0.weight" and "1.running_mean" in names
    assert mean != other_mean


def noise():
    """The meter of train_step, and that of the buckets, on the same step."""
    module = layers()
    meters = Meter(), Meter()
    model = overlap.BucketedDataParallel(module, TINY)
    twin = copy.deepcopy(module)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.0)
    for step in range(3):
        batch = inputs(step), inputs(step + 10)
        data_parallel.train_step(twin, [batch], nn.functional.mse_loss, optimizer, noise_meter=meters[0])
        nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
        model.finish()
        model.update_meter(meters[1], len(batch[0]))
        module.zero_grad()
    return [(meter.value().gradient_sq, meter.value().noise_trace) for meter in meters]


def test_the_noise_scale_comes_from_norms_before_the_reduction():
    for ours, theirs in run(noise, 3):
        assert ours == pytest.approx(theirs, rel=1e-6)


def norms_before_and_after_a_step():
    model = overlap.BucketedDataParallel(layers(), TINY)
    before = model.local_norm_sq, error_of(model.update_meter, Meter(), 4)
    model(inputs()).sum().backward()
    model.finish()
    return before, model.local_norm_sq.item() > 0


def test_before_the_first_step_there_is_no_norm():
    for (norm_sq, error), is_there_after in run(norms_before_and_after_a_step, 2):
        assert norm_sq is None and "gradients reduced" in error and is_there_after


def noise_after(passes):
    model = overlap.BucketedDataParallel(layers(), TINY, TINY)
    for _ in range(passes):
        model(inputs()).sum().backward()
    model.finish()
    return error_of(model.update_meter, Meter(), 4)


def test_norms_that_are_not_those_of_ranks_are_refused():
    assert "two ranks" in run(noise_after, 1, 1)[0]
    assert run(noise_after, 2, 1) == ["no error"] * 2
    assert all("in one piece" in error for error in run(noise_after, 2, 2))


# --- the end of a wrapper, and torch's DDP ---


def ends():
    module = layers()
    model = overlap.BucketedDataParallel(module, TINY)
    model(inputs()).sum().backward()
    model.finish()
    gone = weakref.ref(model), weakref.ref(model._buckets[0])  # hooks would keep the buckets
    del model
    gc.collect()
    threads = [thread.name for thread in threading.enumerate()]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(inputs()).sum().backward()
    return [each() for each in gone], threads.count("communication"), error_of(optimizer.step)


def test_a_wrapper_that_is_dropped_leaves_no_hook_and_no_memory():
    assert run(ends, 2) == [([None, None], 1, "no error")] * 2  # one thread serves all wrappers


def in_ddp(all_reduce):
    torch.manual_seed(0)
    module = layers()
    ddp = DistributedDataParallel(module, bucket_cap_mb=1e-4)
    noted = Noted() if all_reduce == "noted" else all_reduce
    ddp.register_comm_hook(None, overlap.comm_hook(noted))
    expected = copy.deepcopy(module)
    for step in range(3):  # DDP fills its buckets anew after the first
        ddp(inputs(step)).square().sum().backward()
        expected(inputs(step)).square().sum().backward()
        data_parallel.average_gradients(expected)
    return furthest(module, expected, gradient), getattr(noted, "calls", None)


def test_torchs_ddp_takes_the_ring_as_a_comm_hook():
    for difference, calls in run(in_ddp, 3, "noted"):
        assert difference < 1e-12
        assert len(calls) > 3 and {thread for _, thread in calls} == {"communication"}


def test_an_error_in_a_comm_hook_does_not_hang():
    with pytest.raises(ranks.RankFailed, match="the learner's all-reduce failed"):
        run(in_ddp, 2, failing)
