"""train_step: the gradient of one large batch, however it is divided; synchronized once; its options."""

import copy
import math

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib import data_parallel, ranks
from course_lib.noise_scale import Meter

WORLD_SIZES = [1, 2, 3, 4, 5, 8]
FEATURES = 3
# How many samples each micro-batch has: a list for each rank, taken in turns if there are more ranks.
DIVISIONS = [
    [[4]],
    [[2, 2, 2]],
    [[3], [3, 3], [1]],
    [[5, 5, 2], [5, 1]],
    [[2, 0, 1], [], [7]],
]
IGNORED = -100


def run(function, count, *args):
    return ranks.run(function, count, *args, device="cpu")


def a_module(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 1)).to(dtype)


def sgd(module, lr=1.0):
    return torch.optim.SGD(module.parameters(), lr=lr)


def mean_square(outputs, targets):
    return (outputs.squeeze(-1) - targets).square().mean()


def samples_of(division, rank, index=0, dtype=torch.float64):
    """This rank's micro-batches, other samples on each."""
    sizes = division[rank % len(division)]
    draw = torch.Generator().manual_seed(1000 * index + rank)
    return [(torch.randn(size, FEATURES, generator=draw, dtype=torch.float64).to(dtype),
             torch.randn(size, generator=draw, dtype=torch.float64).to(dtype)) for size in sizes]  # fmt: skip


def joined(batches):
    """All micro-batches as one batch."""
    return tuple(torch.cat(parts) for parts in zip(*batches, strict=True))


def values(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


# --- the gradient of one large batch ---


def trained(steps_of_cases):
    """Two steps for each division: the parameters afterwards."""
    found = []
    for index, division in enumerate(steps_of_cases):
        module = a_module()
        optimizer = sgd(module)
        for step in range(2):
            batches = samples_of(division, dist.get_rank(), 10 * index + step)
            data_parallel.train_step(module, batches, mean_square, optimizer)
        assert all(parameter.grad is None for parameter in module.parameters())
        data_parallel.assert_in_step(module)
        found.append(values(module))
    return found


def trained_alone(division, index, count):
    module = a_module()
    for step in range(2):
        of_ranks = [samples_of(division, rank, 10 * index + step) for rank in range(count)]
        inputs, targets = joined(sum(of_ranks, []))
        mean_square(module(inputs), targets).backward()
        sgd(module).step()
        module.zero_grad()
    return values(module)


@pytest.mark.parametrize("count", WORLD_SIZES)
def test_the_same_as_one_large_batch(count):
    of_ranks = run(trained, count, DIVISIONS)
    for index, division in enumerate(DIVISIONS):
        alone = trained_alone(division, index, count)
        for rank, found in enumerate(of_ranks):
            torch.testing.assert_close(found[index], alone, rtol=1e-11, atol=1e-13, msg=f"{division} {rank}")


def one_plain_step():
    module = a_module()
    plain = copy.deepcopy(module)
    ((inputs, targets),) = samples_of([[4]], 0)
    loss = data_parallel.train_step(module, [(inputs, targets)], mean_square, sgd(module))
    plain_loss = mean_square(plain(inputs), targets)
    plain_loss.backward()
    sgd(plain).step()
    return torch.equal(values(module), values(plain)), loss.requires_grad, float(loss - plain_loss.detach())


def test_one_rank_and_one_micro_batch_are_plain_training_to_the_bit():
    assert run(one_plain_step, 1) == [(True, False, 0.0)]


class Tokens(nn.Module):
    """A next-token model, small enough to be differentiated by eye."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(7, 7, dtype=torch.float64)

    def forward(self, tokens):
        return self.table(tokens).transpose(1, 2)


def token_loss(logits, targets):
    return nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED)


def token_batches(rank):
    """Sequences whose lengths differ between ranks and micro-batches; one has no token at all."""
    draw = torch.Generator().manual_seed(rank)
    inputs = torch.randint(7, (3, 2, 6), generator=draw)
    targets = torch.randint(7, (3, 2, 6), generator=draw)
    targets[0, :, 1 + rank % 5 :] = IGNORED
    targets[1, 0] = IGNORED
    if rank % 2:
        targets[2] = IGNORED
    return list(zip(inputs, targets, strict=True))


def number_of_tokens(targets):
    return (targets != IGNORED).sum()


def token_step():
    module = Tokens()
    batches = token_batches(dist.get_rank())
    data_parallel.train_step(module, batches, token_loss, sgd(module), count=number_of_tokens)
    return values(module)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_loss_over_tokens_is_divided_by_all_tokens(count):
    module = Tokens()
    inputs, targets = joined([batch for rank in range(count) for batch in token_batches(rank)])
    token_loss(module(inputs), targets).backward()
    sgd(module).step()
    for found in run(token_step, count):
        torch.testing.assert_close(found, values(module), rtol=1e-12, atol=1e-14)


def micro_batches_of_one_and_three_tokens():
    """nanochat#59: a mean of means counts the one token as much as the three."""
    module = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(module.weight)
    batches = [(torch.ones(size, 1).double(), torch.full((size,), value).double())
               for size, value in ((1, 8.0), (3, 0.0))]  # fmt: skip
    data_parallel.train_step(module, batches, mean_square, sgd(module, lr=0.5))
    return module.weight.item()


def test_unequal_micro_batches_are_weighted():
    assert run(micro_batches_of_one_and_three_tokens, 2) == [2.0, 2.0]  # a mean of means: 4


def four_ranks_by_two_by_two():
    """Automodel#3830: the gradient was ranks x accumulation = 8 times too large."""
    module = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.ones_(module.weight)
    batches = [(torch.ones(2, 1).double(), torch.zeros(2).double())] * 2
    data_parallel.train_step(module, batches, mean_square, sgd(module))
    return 1 - module.weight.item()


def test_the_gradient_is_neither_multiplied_by_ranks_nor_by_micro_batches():
    assert run(four_ranks_by_two_by_two, 4) == [2.0] * 4


# --- synchronization ---


def synchronized(micro_batches):
    module, calls = a_module(torch.float32), []

    def counting(tensor):
        calls.append(tensor.nbytes)
        dist.all_reduce(tensor)

    batches = samples_of([[2] * micro_batches], dist.get_rank(), dtype=torch.float32)
    data_parallel.train_step(module, batches, mean_square, sgd(module), counting)
    with ranks.traffic() as traffic:
        data_parallel.train_step(module, batches, mean_square, sgd(module))
    return calls, traffic.total_sent


def test_gradients_are_synchronized_once_however_many_micro_batches_there_are():
    sizes = [parameter.nbytes // 2 for parameter in a_module().parameters()]  # float32
    for micro_batches in (1, 5):
        for calls, sent in run(synchronized, 2, micro_batches):
            assert calls == sizes  # one call for each parameter
            # The ring on two ranks sends as much as it sums: gradients; who has them, 8 bytes each and 8;
            # and the count.
            assert sent == sum(sizes) + 8 * (len(sizes) + 1) + 8


def accumulated_before_the_last_micro_batch():
    """FunASR#3472 synchronized the first micro-batch in place of the last: 4.0 and 7.0, not 5.5."""
    module = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(module.weight)
    batches = [(torch.ones(1, 1).double(), torch.full((1,), value + 3.0 * dist.get_rank()).double())
               for value in (1, 2, 9)]  # fmt: skip
    data_parallel.train_step(module, batches, lambda out, targets: -(out * targets).mean(), sgd(module))
    return module.weight.item()


def test_every_micro_batch_is_in_the_sum_of_all_ranks():
    assert run(accumulated_before_the_last_micro_batch, 2) == [5.5, 5.5]


def clipped(max_norm):
    """twinkle#290: a norm of 0.8 after the average is no reason to clip, though one rank's own is 1.6."""
    module = nn.Linear(2, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(module.weight)
    gradient = ([[1.6, 0.0]], [[0.0, 0.0]], [[0.8, 2.4]])[dist.get_rank()]
    batches = [(torch.tensor(gradient).double(), torch.zeros(1))]
    data_parallel.train_step(module, batches, lambda outputs, _: outputs.mean(), sgd(module), None, max_norm)
    return (-module.weight.detach()).flatten().tolist()


def test_the_norm_is_clipped_once_after_the_average():
    for found in run(clipped, 2, 1.0):
        assert found == pytest.approx([0.8, 0.0])  # not above 1: nothing to clip, though rank 0's own is
    for found in run(clipped, 3, 0.5):
        assert found == pytest.approx([0.5 / 2**0.5, 0.5 / 2**0.5], rel=1e-5)  # of (0.8, 0.8)


# --- accumulation in another type ---


def thousand_micro_batches(accumulate_in):
    """A bf16 sum of 1,024 equal gradients stands still when it is 256 times as large as each of them."""
    module = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    nn.init.zeros_(module.weight)
    batches = [(torch.ones(1, 1, dtype=torch.bfloat16), torch.zeros(1))] * 1024
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    data_parallel.train_step(
        module, batches, lambda outputs, _: outputs.mean(), optimizer, accumulate_in=accumulate_in)
    return -module.weight.item(), module.weight.grad_dtype, module.weight.dtype


def test_gradients_in_bf16_are_added_up_in_fp32_if_asked():
    for found in run(thousand_micro_batches, 2, torch.float32):
        assert found == (1.0, torch.bfloat16, torch.bfloat16)
    for value, _, _ in run(thousand_micro_batches, 2, None):
        assert value < 0.9


def adam_after_fp32():
    module = a_module(torch.bfloat16)
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)
    seen = []
    optimizer.register_step_pre_hook(
        lambda *_: seen.extend(parameter.grad.dtype for parameter in module.parameters()))
    batches = samples_of([[2, 2]], dist.get_rank(), dtype=torch.bfloat16)
    data_parallel.train_step(module, batches, mean_square, optimizer, accumulate_in=torch.float32)
    too_wide = torch.zeros(1, FEATURES + 1, dtype=torch.bfloat16)
    failing = [batches[0], (too_wide, torch.zeros(1))]
    with pytest.raises(RuntimeError):
        data_parallel.train_step(module, failing, mean_square, optimizer, accumulate_in=torch.float32)
    return set(seen), {parameter.grad_dtype for parameter in module.parameters()}


def test_the_optimizer_gets_gradients_in_the_parameters_type_also_after_an_error():
    assert run(adam_after_fp32, 1) == [({torch.bfloat16}, {torch.bfloat16})]


# --- the noise of gradients ---


def probed(division):
    """What the meter got in a step, and whether the step was the same without it."""
    updates = []

    class Noted(Meter):
        def update(self, *numbers):
            updates.append(numbers)
            super().update(*numbers)

    module, alone = a_module(), a_module()
    batches = samples_of(division, dist.get_rank())
    data_parallel.train_step(module, batches, mean_square, sgd(module), max_norm=0.1, noise_meter=Noted())
    data_parallel.train_step(alone, batches, mean_square, sgd(alone), max_norm=0.1)
    return updates, torch.equal(values(module), values(alone))


def norm_sq(batches):
    module = a_module()
    inputs, targets = joined(batches)
    mean_square(module(inputs), targets).backward()
    return sum(float(parameter.grad.square().sum()) for parameter in module.parameters())


@pytest.mark.parametrize(("count", "division"), [
    (1, [[4, 4]]), (1, [[5, 0, 2]]), (3, [[4]]), (4, [[2, 2]]), (3, [[3], [2, 2], []]), (8, [[1]]),
])  # fmt: skip
def test_the_noise_meter_gets_the_norms_of_small_and_of_whole_batches(count, division):
    everything = [samples_of(division, rank) for rank in range(count)]
    small = [[batch] for batch in everything[0]] if count == 1 else everything
    small = [batches for batches in small if sum(len(targets) for _, targets in batches)]
    sizes = [sum(len(targets) for _, targets in batches) for batches in small]
    right = (
        sum(map(norm_sq, small)) / len(small), norm_sq(sum(small, [])),
        len(small) / sum(1 / size for size in sizes), sum(sizes),
    )  # fmt: skip
    for (update,), unchanged in run(probed, count, division):
        assert unchanged
        assert update == pytest.approx(right, rel=1e-9)


class Tied(nn.Module):
    """A weight that is used twice; with reentrant checkpointing its gradient comes in two parts."""

    def __init__(self, checkpointed):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.one, self.other = (
            nn.Linear(FEATURES, FEATURES, dtype=torch.float64) for _ in range(3))
        self.other.weight = self.one.weight
        self.checkpointed = checkpointed

    def forward(self, inputs):
        inputs = self.first(inputs)
        middle = checkpoint(self.one, inputs, use_reentrant=True) if self.checkpointed else self.one(inputs)
        return self.other(middle).sum(-1)


def probed_tied(checkpointed):
    module, meter, batches = Tied(checkpointed), Meter(), samples_of([[3, 3]], 0)
    data_parallel.train_step(module, batches, mean_square, sgd(module), noise_meter=meter)
    right = []
    for part in ([batches[0]], [batches[1]], batches):
        module = Tied(checkpointed=False)
        inputs, targets = joined(part)
        mean_square(module(inputs), targets).backward()
        right.append(sum(float(parameter.grad.square().sum()) for parameter in module.parameters()))
    again = Meter()
    again.update((right[0] + right[1]) / 2, right[2], 3, 6)
    return meter.value(), again.value()


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_shared_weights_micro_gradient_is_the_sum_of_its_uses(checkpointed):
    ((found, right),) = run(probed_tied, 1, checkpointed)
    assert found.gradient_sq == pytest.approx(right.gradient_sq)
    assert found.noise_trace == pytest.approx(right.noise_trace)


def one_batch_size(counts):
    found = []
    for count in counts:
        module, meter, batches = a_module(), Meter(), samples_of([[count]], 0)
        data_parallel.train_step(module, batches, mean_square, sgd(module), noise_meter=meter)
        found.append(meter.value())
    return found


def test_one_rank_and_one_micro_batch_have_no_noise_scale_and_train_all_the_same():
    # 1 / (1 / count) is another number than the count for some of them, smaller or greater.
    for found in run(one_batch_size, 1, [4, 49, 93, 98, 103, 107])[0]:
        assert found.scale is None and "undefined for one batch size" in found.note


def overflowing():
    module, meter = a_module(), Meter()
    batches = samples_of([[3, 3]], dist.get_rank())
    data_parallel.train_step(
        module, batches, lambda *pair: mean_square(*pair) * math.inf, sgd(module), noise_meter=meter)
    return meter.value().note, [parameter.grad for parameter in module.parameters()] == [None] * 4


def test_a_step_that_overflows_is_not_in_the_noise_scale_and_ends_nothing():
    for count in (1, 2):
        assert run(overflowing, count) == [("No gradient was finite.", True)] * count


# --- what is refused ---


def refused(kind):
    module = a_module()
    batches, optimizer, options = samples_of([[2]], dist.get_rank()), sgd(module), {}
    if kind == "leftover":
        mean_square(module(batches[0][0]), batches[0][1]).backward()
    if kind == "nothing":
        batches = []
    if kind == "scalar":
        batches = [(batches[0][0], torch.tensor(1.0))]
    if kind == "negative":
        options = {"count": lambda targets: -1}
    if kind == "max_norm":
        options = {"max_norm": 0}
    if kind == "vector":
        options = {"count": lambda targets: targets}
    if kind == "integers":
        options = {"accumulate_in": torch.int32}
    before = values(module)
    with pytest.raises(ValueError) as error:
        data_parallel.train_step(module, batches, mean_square, optimizer, **options)
    assert torch.equal(values(module), before)
    return str(error.value)


@pytest.mark.parametrize(("kind", "said"), [
    ("leftover", "parameter 0.weight has a gradient before the step: expected none"),
    ("nothing", "nothing to learn from: the counts of all micro-batches on all ranks are 0"),
    ("scalar", "the targets can't be counted: expected a count that gives one number"),
    ("negative", "count(targets)=-1: expected a number, 0 or more"),
    ("max_norm", "max_norm=0: expected a number above 0"),
    ("vector", "the targets can't be counted: expected a count that gives one number"),
    ("integers", "accumulate_in=torch.int32: expected a floating type, such as torch.float32"),
])  # fmt: skip
def test_bad_arguments_are_refused_before_any_weight_changes(kind, said):
    assert all(message.startswith(said) for message in run(refused, 2, kind))
