"""The checks of exercise 05: every stored wrong answer is refused by name, every right one passes."""

import random
import struct
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from course_lib.checks import exercise_05 as check
from course_lib.checks import judging, playing, report, tolerance, values
from course_lib.checks.calling import in_rank
from course_lib.checks.checking import check as check_part
from course_lib.checks.exercise_05 import in_fp32, problem, training
from course_lib.checks.part import Attempt, Compared, Played
from course_lib.checks.values import Tensor, Unknown

IN_RANK = "exercise_05.training"
# What a learner's function becomes there.
PARTS = {
    "train": lambda function: in_rank(f"{IN_RANK}.stream", function),
    "train_step": lambda function: in_rank(f"{IN_RANK}.steps", function, problem.MSE),
    "train_step_by_tokens": lambda function: in_rank(f"{IN_RANK}.steps", function, problem.CROSS_ENTROPY),
    "gradients_in_fp32": lambda function: in_rank(f"{IN_RANK}.in_fp32", function),
    "noise_scale": lambda function: function,
}
TRAINING = ("train", "train_step", "train_step_by_tokens")
ON_RANKS = ("train_step", "train_step_by_tokens")


def part(name):
    return getattr(check, name.upper())


def sizes(name):
    return (1,) if part(name).one_process else (2, 3)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_no_function_is_said(name, capsys):
    assert getattr(check, name)(17) == 0.0
    assert "expected a function to check, got 17" in capsys.readouterr().out


# --- Cases ---


@pytest.mark.parametrize("name", PARTS)
def test_all_cases_are_drawn_the_same_again_and_the_last_one_is_secret(name):
    for ranks in part(name).world_sizes:
        cases = part(name).draw(ranks)
        assert part(name).draw(ranks) == cases
        assert [case.secret for case in cases] == [False] * (len(cases) - 1) + [True]
        assert len({case.title for case in cases}) == len(cases) > 5


@pytest.mark.parametrize("name", ON_RANKS)
def test_no_two_ranks_are_given_the_same_micro_batches(name):
    """Else an average over the ranks would change nothing."""
    for case in part(name).draw(5):
        given = [str(arguments[problem.INPUTS].numbers) for arguments in case.arguments]
        assert len(set(given)) == 5


def whole_batch(name, case):
    """The gradient of one process with all samples of the first step, by torch."""
    loss = problem.CROSS_ENTROPY if name == "train_step_by_tokens" else problem.MSE
    built = [values.build(arguments, "cpu") for arguments in case.arguments]
    count = built[0][problem.MORE] if name == "train" else 1  # of micro-batches, or the first step of all
    inputs, targets = (
        torch.cat([arguments[place][:count] for arguments in built])
        for place in (problem.INPUTS, problem.TARGETS)
    )
    several = inputs.dim() - inputs.reshape(-1, inputs.shape[-1]).dim()
    module = training.Linear(*built[0][: problem.INPUTS], training.Kept(1))
    outputs = module(inputs.flatten(0, several))
    getattr(torch.nn.functional, loss)(outputs, targets.flatten(0, several)).backward()
    return torch.cat([module.weight.grad.reshape(-1), module.bias.grad])


@pytest.mark.parametrize("name", TRAINING)
def test_what_is_expected_is_the_whole_batchs_gradient_in_torch(name):
    for ranks in part(name).world_sizes:
        for case in part(name).draw(ranks):
            gradient = whole_batch(name, case)
            most = case.arguments[0][problem.MORE] if name == "train_step" else None
            if most is not None:
                gradient *= min(1.0, most / gradient.norm().item())
            for gradients, _, _ in case.expected:
                assert values.agree(values.describe(gradient), gradients[0], case.tolerance)


def test_one_norm_is_below_the_largest_and_would_not_be_if_squares_were_added_over_ranks():
    for ranks in (2, 3, 4, 5):
        (case,) = (case for case in check.TRAIN_STEP.draw(ranks) if "K = 2, max_norm" in case.title)
        norm = torch.tensor(case.expected[0][0][0].numbers).norm().item()
        assert norm / case.arguments[0][problem.MORE] == pytest.approx(0.8, rel=1e-3)


def test_micro_batches_have_unequal_numbers_of_tokens_and_once_none():
    for ranks in (1, 2, 5):
        least = [
            min(micro_batch.counted for rank in range(ranks)
                for micro_batch in problem.micro_batches(case.arguments[rank]))
            for case in check.TRAIN_STEP_BY_TOKENS.draw(ranks)
        ]  # fmt: skip
        assert min(least) == 0 < max(least)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_one_count_of_tokens_is_no_number_in_two_bytes(dtype):
    for ranks in (1, 2, 3, 4, 5):
        (case,) = (case for case in check.TRAIN_STEP_BY_TOKENS.draw(ranks) if "long" in case.title)
        batches = [problem.micro_batches(arguments)[:2] for arguments in case.arguments]
        counts = [sum(micro_batch.counted for micro_batch in of_rank) for of_rank in batches]
        for count in (counts[0], sum(counts)):
            assert torch.tensor(count, dtype=dtype).item() != count


def test_bfloat16_is_rounded_as_torch_does():
    numbers = [0.0, 1.0, -1.0, 256.0, 257.0, 259.0, 1e-3, -3.14159, 1e30]
    numbers += [random.Random(0).uniform(-1000, 1000) for _ in range(1000)]
    numbers = [struct.unpack("f", struct.pack("f", number))[0] for number in numbers]
    assert [in_fp32.bf16(number) for number in numbers] == torch.tensor(numbers).bfloat16().tolist()


def test_bfloat16_loses_digits_in_most_cases_and_micro_gradients_do_not():
    wrong = 0
    for case in check.GRADIENTS_IN_FP32.draw(1):
        weight, _, inputs, signs = (values.build(argument, "cpu") for argument in case.arguments[0])
        micro = signs[:, 0, :, None] * inputs  # in bfloat16
        assert torch.equal(micro, signs.double()[:, 0, :, None] * inputs.double())
        total = torch.zeros_like(weight)
        for gradient in micro:
            total += gradient
        wrong += not torch.equal(total.double(), micro.double().sum(dim=0))
    assert wrong == 3


# --- Mistakes ---


def as_result(case, rank, made):
    """What would come back from a rank that has trained like this."""
    (gradients, weights, *more), (rows, row) = case.expected[rank], made
    forms = gradients if len(rows) == len(gradients) else [gradients[0]] * len(rows)
    described = (Tensor(form.dtype, form.shape, tuple(each)) for form, each in zip(forms, rows, strict=True))
    return tuple(described), Tensor(weights.dtype, weights.shape, tuple(row)), *more


def results_of(name, formula, case):
    if name == "noise_scale":
        return [formula(*case.arguments[0])]
    return [as_result(case, rank, made) for rank, made in enumerate(formula(case.arguments))]


def mistake_named(name, formula):
    """What a check says if all ranks have what a formula gives."""
    judgements = []
    small = replace(part(name), world_sizes=sizes(name))
    for ranks, cases in small.runs():
        played = [
            [Played(value, arguments, "", ()) for value, arguments in zip(made, case.arguments, strict=True)]
            for case, made in ((case, results_of(name, formula, case)) for case in cases)
        ]
        judgements.append(judging.judge(small, Attempt(ranks, cases, played)))
    return report.main_mistake(small, judgements)


FORMULAS = [
    pytest.param(name, see, id=f"{name} {see.sentence[:60]}")
    for name in PARTS
    for see in part(name).recognizers
    if isinstance(see, report.AsIf)
]


@pytest.mark.parametrize(("name", "see"), FORMULAS)
def test_each_mistake_is_told_from_all_others(name, see):
    assert (mistake_named(name, see.formula) or "").startswith(see.sentence)


@pytest.mark.parametrize("name", PARTS)
def test_numbers_from_nowhere_get_no_wrong_explanation(name):
    """A sentence that names a mistake which was not made would send the learner astray."""
    def nowhere(*arguments):
        if name == "noise_scale":
            return 17.0, 17e3, 1234.5
        return [([[12.5] * len(row.numbers) for row in expected[0]], [12.5] * len(expected[1].numbers))
                for expected in drawn[str(arguments[0])]]  # fmt: skip

    cases = [case for ranks in sizes(name) for case in part(name).draw(ranks)]
    drawn = {str(case.arguments): case.expected for case in cases}
    assert mistake_named(name, nowhere) in (None, report.ALWAYS_THE_SAME)


@pytest.mark.parametrize("name", ["gradients_in_fp32", "noise_scale"])
@pytest.mark.parametrize(
    "odd", [True, 5, "text", (), (1,), (None, None), (1, 2, 3), (1, "a", None), Unknown("dict"), float("nan"),
            (Tensor("float32", (2,), (1.0, 2.0)),) * 2, (Tensor("float32", (), (1.0,)),) * 3, 2**999],
    ids=lambda odd: str(odd)[:10],
)  # fmt: skip
def test_what_is_no_answer_at_all_ends_no_check(name, odd):
    for case in part(name).draw(1):
        got = (odd, *case.expected[0][1:]) if name == "gradients_in_fp32" else odd
        compared = Compared(1, case, [Played(got, case.arguments[0], "", ())])
        assert compared.wrong_ranks
        assert len(part(name).in_words(compared, 0)) == 2
        assert next(filter(None, (see(compared) for see in part(name).recognizers)), "") is not None


# --- What a rank notes ---


def forward_twice(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for inputs, targets in micro_batches:
        print(f"loss {loss_function(module(inputs), targets).item() > 0}")
        with torch.no_grad():
            module(inputs)
        loss_function(module(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_look_at_the_loss_keeps_no_activations(capsys):
    """What nobody can call backward on is free."""
    first = replace(check.TRAIN, draw=lambda ranks: check.TRAIN.draw(ranks)[:1])
    assert check_part(first, PARTS["train"](forward_twice)) == 1.0, capsys.readouterr().out


def test_activations_of_several_micro_batches_are_counted():
    kept = training.Kept(2)
    module = training.Linear(torch.ones(1, 3), torch.ones(1), None, kept)
    outputs = [module(torch.ones(2, 3)) for _ in range(3)]
    assert (kept.now, kept.most) == (6, 6)
    outputs[0].sum().backward()
    assert kept.now == 4
    del outputs[1:]
    assert (kept.now, kept.most) == (0, 6)


def sums_twice(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    all_reduce(torch.ones(3))
    torch.distributed.all_reduce(torch.ones(2, dtype=torch.float64))


def test_the_bytes_of_collectives_are_recorded():
    cases = check.TRAIN_STEP.draw(2)[:1]
    attempt = playing.play(PARTS["train_step"](sums_twice), cases, playing.limits_of(check.TRAIN_STEP))
    steps = cases[0].arguments[0][problem.INPUTS].shape[0]
    for played in attempt.played[0]:
        assert played.collectives == ("all_reduce", "all_reduce") * steps
        assert played.collective_bytes == (12, 16) * steps


def test_numbers_that_round_differently_are_right():
    assert tolerance.near((0.1 + 0.2, 1.0, None), (0.3, 1.0, None), 1e-9)
    assert not tolerance.near((0.3001, 1.0, None), (0.3, 1.0, None), 1e-9)


@pytest.mark.long
def test_the_optimizer_is_one_of_torchs_and_needs_not_its_compiler():
    code = (
        "import sys, torch; from course_lib.checks.exercise_05 import training\n"
        "optimizer = training.SGD(torch.nn.Linear(2, 1), 0.1)\n"
        "optimizer.zero_grad(); optimizer.step(); print(isinstance(optimizer, torch.optim.Optimizer))\n"
        "print('torch._dynamo' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("True\nFalse\n", "")
