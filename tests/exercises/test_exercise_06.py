"""The checks of exercise 06: what is expected in them, what a rank notes, and what mistakes look like."""

from dataclasses import replace
from itertools import chain

import nbformat
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from course_lib import buckets
from course_lib.checks import exercise_06 as check
from course_lib.checks import judging, report, values
from course_lib.checks.exercise_06 import collecting, diagnosis, order, paper, problem, runs, training
from course_lib.checks.exercise_06.order import AllReduce, Plan
from course_lib.checks.part import Attempt, Compared, Played
from course_lib.checks.values import Tensor
from course_lib.working_copy import COURSE_ROOT

PARTS = ("on_paper", "fill_buckets", "collect", "train", "causes")
ON_MODELS = ("collect", "train")


def part(name):
    return getattr(check, name.upper())


def all_arguments(name):
    """Of every case and rank."""
    for ranks in part(name).world_sizes:
        for case in part(name).draw(ranks):
            yield from case.arguments


@pytest.mark.parametrize("name", PARTS)
def test_what_is_no_function_is_said(name, capsys):
    assert getattr(check, name)(17) == 0.0
    assert "expected a function to check, got 17" in capsys.readouterr().out


# --- Cases ---


@pytest.mark.parametrize("name", ["fill_buckets", *ON_MODELS])
def test_all_cases_are_drawn_the_same_again_and_the_last_one_is_secret(name):
    for ranks in part(name).world_sizes:
        cases = part(name).draw(ranks)
        assert part(name).draw(ranks) == cases
        assert [case.secret for case in cases] == [False] * (len(cases) - 1) + [True]
        assert len({case.title for case in cases}) == len(cases) > 5


@pytest.mark.parametrize("name", ["on_paper", "causes"])
def test_the_answer_to_no_question_is_shown(name):
    assert all(case.secret for case in part(name).draw(1))


def test_the_answers_on_paper_follow_from_the_rule():
    names, sizes = list(paper.MODEL), list(paper.MODEL.values())
    filled = [tuple(names[i] for i in each) for each in buckets.assign(sizes, paper.BUCKET_BYTES)]
    assert paper.ANSWERS == {
        "first_bucket": filled[0],
        "starts_it": filled[0][-1],
        "all_reduces": len(filled),
        "cannot_hide": filled[-1],
        "bytes_sent": 2 * (paper.RANKS - 1) * sum(sizes) // paper.RANKS,
    }


def test_the_exercises_text_has_the_model_and_the_causes_of_the_check():
    notebook = nbformat.read(COURSE_ROOT / "exercises" / "06_buckets_and_hooks.ipynb", 4)
    text = "\n".join(cell.source for cell in notebook.cells)
    for name, size in paper.MODEL.items():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        shape = [int(number) for number in row.split("|")[2].split("×")]
        assert f"| {size:,} |" in row
        assert 4 * torch.Size(shape).numel() == size
    assert f"{paper.BUCKET_BYTES:,} bytes" in text
    causes = [line for line in text.splitlines() if line[:1].isdigit() and ". " in line[:4]]
    assert [int(line.partition(".")[0]) for line in causes] == list(diagnosis._SEEN)


def test_no_two_ranks_are_given_the_same_micro_batches():
    for case in check.TRAIN.draw(3):
        given = [str(arguments[problem.INPUTS].numbers) for arguments in case.arguments]
        assert len(set(given)) == 3


@pytest.mark.parametrize("name", ON_MODELS)
def test_gradients_and_the_order_of_hooks_are_torchs(name):
    for arguments in all_arguments(name):
        trained = training.Training(values.build(arguments, "cpu"))
        for step, batch in zip(problem.gradients(arguments), trained.batches, strict=True):
            for rows, (inputs, targets) in zip(step, batch, strict=True):
                trained.watch.log.clear()
                training.loss_function(trained.module(inputs), targets).backward()
                fired = [problem.trained(arguments)[place] for place in problem.firing(arguments)]
                assert trained.watch.log == [f"gradient {number}" for number in fired]
                got = training.row([each.grad for each in trained.trained]).double()
                assert torch.allclose(got, torch.tensor([*chain(*rows)], dtype=torch.float64), atol=1e-5)
                trained.module.zero_grad()


def test_a_checkpointed_layer_is_as_torchs_own():
    weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def gradients(apply):
        fired = []
        handle = weight.register_post_accumulate_grad_hook(lambda each: fired.append(each.grad.tolist()))
        inputs = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        before = (weight * inputs).sum(-1)
        apply(lambda total, own: (total + (weight * own).sum(-1)) ** 2, before, inputs).sum().backward()
        handle.remove()
        weight.grad = None
        return fired

    own = gradients(training._Checkpointed.apply)
    assert own == gradients(lambda *arguments: checkpoint(*arguments, use_reentrant=True))
    assert len(own) == 2


def test_the_cases_have_what_makes_hooks_hard():
    for name in ON_MODELS:
        drawn = list(all_arguments(name))
        assert any(arguments[problem.FROZEN] for arguments in drawn)
        assert any(max(problem.firings(arguments).values()) == 2 for arguments in drawn)
        # A tied weight: the first bucket is full last.
        assert any(problem.full_after(each)[0] == max(problem.full_after(each)) for each in drawn
                   if len(problem.filled(each)) > 1)  # fmt: skip
    (case,) = (case for case in check.TRAIN.draw(3) if case.title.startswith("layers in another order"))
    assert len({tuple(problem.full_after(arguments)) for arguments in case.arguments}) == 3


def test_in_a_case_a_bucket_that_is_put_aside_can_start_long_before_the_end():
    """Else who starts it in ``finish`` would be right."""
    (case,) = (case for case in check.TRAIN.draw(1) if "bucket 1 is full before bucket 0" in case.title)
    first, second, *_, last = problem.full_after(case.arguments[0])
    assert second < first < last


def test_the_last_bucket_of_some_cases_is_not_full():
    for name in ON_MODELS:
        last = [
            sum(problem.sizes(each)[place] for place in problem.filled(each)[-1]) < each[problem.BUCKET_BYTES]
            for each in all_arguments(name)
        ]
        assert True in last
        assert False in last


# --- The order of things ---

PLAN = Plan(ranks=2, micro_batches=2, sizes=(8, 8, 8), buckets=(16, 8), full_after=(2, 3), hooks=3)
GOOD = (AllReduce(16, 5, 6), AllReduce(8, 6, 6))


def fault_of(*step):
    """In a second step."""
    return order.fault([GOOD, step], PLAN)[0]


def test_a_right_order_has_no_fault():
    assert order.fault([GOOD, GOOD], PLAN) == order.RIGHT
    assert order.fault([], replace(PLAN, ranks=1)) == order.RIGHT
    with_flags = (replace(GOOD[0], bytes=16 + 24), GOOD[1])
    assert fault_of(*with_flags) == ""


@pytest.mark.parametrize(("step", "fault"), [
    ((), order.LATER_NEVER),
    (GOOD[:1], order.LAST_MISSING),
    ((AllReduce(8, 4, 6), AllReduce(8, 5, 6), AllReduce(8, 6, 6)), order.EACH_PARAMETER),
    ((AllReduce(16, 2, 3), AllReduce(8, 3, 3), *GOOD), order.EACH_TIME),
    ((*GOOD, GOOD[1]), order.OTHER_NUMBER),
    ((AllReduce(8, 5, 6), AllReduce(16, 6, 6)), order.OTHER_SIZES),
    ((AllReduce(16, 4, 6), AllReduce(8, 6, 6)), order.EARLY),
    ((AllReduce(16, 4, 6), AllReduce(8, 5, 6)), order.BY_ONE),
    ((AllReduce(16, 2, 6), AllReduce(8, 3, 6)), order.EARLIER_MICRO_BATCH),
    ((AllReduce(16, 6, 6), GOOD[1]), order.AFTERWARDS),
    ((AllReduce(16, 5, 5), GOOD[1]), order.IN_HOOK),
    ((AllReduce(16, 5), GOOD[1]), order.NOT_WAITED),
    ((replace(GOOD[0], touched="read"), GOOD[1]), order.READ),
    ((replace(GOOD[0], touched="written"), GOOD[1]), order.WRITTEN),
    ((replace(GOOD[0], under_way_at_step=True), GOOD[1]), order.STEPPED),
    ((replace(GOOD[0], of_weights=True), GOOD[1]), order.WEIGHTS),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_each_fault_of_order_is_told_from_all_others(step, fault):
    assert fault_of(*step) == fault
    assert check.launching._SENTENCES[fault]


IN_TURN = Plan(ranks=2, micro_batches=1, sizes=(8,) * 4, buckets=(16, 8, 8), full_after=(3, 1, 5), hooks=5)


@pytest.mark.parametrize(("started_at", "fault"), [
    ((3, 3, 5), ""),
    ((4, 4, 5), order.LATE),
    ((3, 4, 5), order.PUT_ASIDE),
    ((3, 5, 5), order.PUT_ASIDE),
    ((5, 5, 5), order.AFTERWARDS),
    ((1, 3, 5), order.EARLY),
])  # fmt: skip
def test_a_bucket_starts_with_the_hook_that_makes_it_its_turn(started_at, fault):
    pairs = zip(IN_TURN.buckets, started_at, strict=True)
    assert order.fault([[AllReduce(size, at, 5) for size, at in pairs]], IN_TURN)[0] == fault


def test_a_bucket_that_starts_when_it_is_full_may_be_out_of_turn():
    step = AllReduce(8, 1, 5), AllReduce(16, 3, 5), AllReduce(8, 5, 5)
    assert order.fault([step], IN_TURN)[0] == order.OUT_OF_TURN


def test_all_must_wait_for_a_first_bucket_that_is_full_last():
    """A tied weight: nothing can be hidden, and nobody is blamed for it."""
    tied = replace(PLAN, full_after=(3, 2))
    assert order.fault([(AllReduce(16, 6, 6), AllReduce(8, 6, 6))], tied) == order.RIGHT


# --- Mistakes ---


def played(case, made):
    return [
        Played(value, arguments, "", ()) for value, arguments in zip(made, case.arguments, strict=True)
    ]


def mistake_named(name, results_of):
    """What a check says if all ranks have what ``results_of(case)`` gives."""
    small = replace(part(name), world_sizes=(1,) if part(name).one_process else (2, 3))
    judgements = [
        judging.judge(small, Attempt(ranks, cases, [played(case, results_of(case)) for case in cases]))
        for ranks, cases in small.runs()
    ]
    return report.main_mistake(small, judgements) or ""


def in_form_of(name, formula, case):
    if name == "fill_buckets":
        return [formula(*case.arguments[0])]
    if name == "collect":
        return [collecting._passes(formula(case.arguments[0]), case.arguments[0])]
    made = zip(formula(case.arguments), case.expected, strict=True)
    return [
        (
            tuple(Tensor(weights.dtype, weights.shape, tuple(row)) for row in rows),
            Tensor(weights.dtype, weights.shape, tuple(at_end)),
            order.RIGHT,
        )
        for (rows, at_end), (_, weights, _) in made
    ]


FORMULAS = [
    pytest.param(name, see, see.formula, id=f"{name} {see.sentence[:60]}")
    for name in ("fill_buckets", *ON_MODELS)
    for see in part(name).recognizers
    if isinstance(see, report.AsIf)
]


@pytest.mark.parametrize(("name", "see", "formula"), FORMULAS)
def test_each_mistake_is_told_from_all_others(name, see, formula):
    assert mistake_named(name, lambda case: in_form_of(name, formula, case)).startswith(see.sentence)


def test_numbers_from_nowhere_get_no_wrong_explanation():
    """A sentence that names a mistake which was not made would send the learner astray."""
    assert mistake_named("fill_buckets", lambda case: [((0, 7), (3,))]) == report.ALWAYS_THE_SAME

    def others(rows):
        return tuple(replace(row, numbers=(12.5,) * len(row.numbers)) for row in rows)

    def other_rows(case):
        return [tuple((numbers, others(rows), *rest) for numbers, rows, *rest in case.expected[0])]

    assert mistake_named("collect", other_rows) == ""

    def other_gradients(case):
        return [(others(rows), *rest) for rows, *rest in case.expected]

    assert mistake_named("train", other_gradients) == ""


ODD = [True, 5, 2.5, "text", (), (1,), (None, None), ("a", "b"), values.Unknown("set"), float("nan"), 2**999,
       ((1, 2), 3), ((1.5,),), Tensor("float32", (2,), (1.0, 2.0))]  # fmt: skip


@pytest.mark.parametrize("name", ["on_paper", "fill_buckets", "causes"])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: str(odd)[:10])
def test_what_is_no_answer_at_all_ends_no_check(name, odd):
    for case in part(name).draw(1):
        compared = Compared(1, case, [Played(odd, case.arguments[0], "", ())])
        if compared.wrong_ranks:
            judging.judge(part(name), Attempt(1, [case], [compared.played]))
            mistake_named(name, lambda _: [odd])


@pytest.mark.parametrize("odd", [*ODD, None], ids=lambda odd: str(odd)[:10])
def test_what_is_no_row_ends_no_check(odd):
    for case in check.COLLECT.draw(1):
        (numbers, rows, counts, gradients), *others = case.expected[0]
        for called in ((odd, *numbers[1:]), rows), (numbers, (odd, *rows[1:])):
            value = ((*called, counts, gradients), *others)
            judgement = judging.judge(check.COLLECT, Attempt(1, [case], [played(case, [value])]))
            assert not judgement.right
            assert report.main_mistake(check.COLLECT, [judgement])


# --- The broken runs ---


def test_a_broken_run_prints_the_same_each_time(capsys):
    check.broken_run("C", micro_batches=1)
    printed = capsys.readouterr().out
    check.broken_run("C", micro_batches=1)
    assert capsys.readouterr().out == printed
    assert "start of 80 bytes\n  wait for 80 bytes\n  hooks of weights.2, weights.1\n" in printed


@pytest.mark.parametrize(("name", "micro_batches", "apart"), [
    ("A", 2, ["weights.0"]),
    ("B", 1, []),
    ("B", 2, [f"weights.{number}" for number in range(6)]),
    ("C", 2, []),
])  # fmt: skip
def test_the_weights_that_go_apart(name, micro_batches, apart, capsys):
    def look(module, step):
        for weight, parameter in module.named_parameters():
            print(f"step {step} {weight} {parameter.tolist()}")

    check.broken_run(name, look, micro_batches)
    printed = capsys.readouterr().out.splitlines()
    of_ranks = [
        [line.partition("] ")[2] for line in printed if line.startswith(f"[rank {rank}] step 1")]
        for rank in range(2)
    ]
    assert len(of_ranks[0]) == 6
    assert [one.split()[2] for one, other in zip(*of_ranks, strict=True) if one != other] == apart


def test_a_run_of_another_name_is_refused():
    with pytest.raises(ValueError, match="name='D'"):
        check.broken_run("D")
    with pytest.raises(ValueError, match="micro_batches=0"):
        check.broken_run("A", micro_batches=0)


def test_the_runs_are_those_that_the_check_asks_for():
    assert tuple(diagnosis._CAUSES) == runs.RUNS
    assert set(diagnosis._CAUSES.values()) <= set(diagnosis._SEEN)
