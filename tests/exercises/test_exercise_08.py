"""The checks of exercise 08, beside what test_answers.py says of all exercises."""

import contextlib
import io
import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.nn.functional import cross_entropy

from course_lib import hardware, memory, utilization
from course_lib.activations import model_bytes
from course_lib.checks import exercise_08 as check
from course_lib.checks import given, judging, report, tolerance, values
from course_lib.checks.exercise_05 import problem
from course_lib.checks.exercise_05.training import row
from course_lib.checks.exercise_08 import assembling, living, planning, predicting, resuming, training
from course_lib.checks.exercise_08.schedule import FIRST, MOST, share
from course_lib.checks.part import Attempt, Compared, Played
from course_lib.checks.tolerance import near
from course_lib.checks.values import Tensor, Unknown
from course_lib.ranks import RanksError, RankState
from course_lib.transformer import CONFIGS, TransformerConfig
from tests.exercises import answers

NEAR = {"step_seconds": predicting.TOLERANCE, "best": 1e-9, "checkpoint_every": 1e-9}
ALONE = ("run", *NEAR)
PARTS = ("train", *ALONE)


def part(name):
    return getattr(check, name.upper())


@cache
def cases(name, ranks=1):
    return part(name).draw(ranks)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_no_function_is_said(name, capsys):
    assert getattr(check, name)(17) == 0.0
    assert "expected a function to check, got 17" in capsys.readouterr().out


@pytest.mark.parametrize("name", PARTS)
def test_all_cases_are_drawn_the_same_again_and_the_last_one_is_secret(name):
    for ranks in part(name).world_sizes:
        drawn = cases(name, ranks)
        assert part(name).draw(ranks) == drawn
        assert [case.secret for case in drawn] == [False] * (len(drawn) - 1) + [True]
        assert len({case.title for case in drawn}) == len(drawn) > 5


@pytest.mark.parametrize("name", PARTS)
def test_no_result_serves_for_two_cases(name):
    """So that no constant passes more than one."""
    expected = [str(case.expected) for case in cases(name)]
    assert len(set(expected)) == len(expected)


# --- Part 1: what is expected is what one process has, by torch ---


def samples_of_all(case):
    """Inputs and targets of each step, of all ranks and micro-batches together, without padding."""
    built = [values.build(arguments, "cpu") for arguments in case.arguments]
    for step in range(len(built[0][problem.INPUTS])):
        inputs, targets = (
            torch.cat([rank[place][step].flatten(0, 1) for rank in built])
            for place in (problem.INPUTS, problem.TARGETS)
        )
        there = targets != problem.IGNORED
        yield inputs[there], targets[there]


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_what_is_expected_is_the_training_of_one_process(ranks):
    for case in cases("train", ranks):
        weight, bias, _, _, _, rate, first, most = values.build(case.arguments[0], "cpu")
        parameters = [each.clone().requires_grad_() for each in (weight, bias)]
        gradients, losses = [], []
        for number, (inputs, targets) in enumerate(samples_of_all(case)):
            loss = cross_entropy(inputs @ parameters[0].T + parameters[1], targets)
            gradient = row(torch.autograd.grad(loss, parameters))
            gradient *= min(1.0, most / gradient.norm().item())
            gradients.append(gradient)
            losses.append(loss.item())
            with torch.no_grad():
                pieces = gradient.split([weight.numel(), len(bias)])
                for parameter, piece in zip(parameters, pieces, strict=True):
                    parameter -= rate * share(first + number) * piece.view_as(parameter)
        made = tuple(gradients), row(parameters), torch.tensor(losses).double()
        for rank in range(ranks):
            *trained, (returned, _) = case.expected[rank]
            assert values.agree(values.describe(made), (*trained, returned), case.tolerance)


def test_ranks_and_micro_batches_have_unequal_numbers_of_samples_and_none_has_none():
    for ranks in (2, 3):
        unequal = 0
        for case in cases("train", ranks):
            counts = [[each.counted for each in problem.micro_batches(arguments)]
                      for arguments in case.arguments]  # fmt: skip
            assert min(map(min, counts)) > 0
            unequal += len({*map(sum, counts)}) > 1
        assert 4 <= unequal < 7  # in one all have equally many


def test_the_schedule_tells_steps_apart():
    rates = [share(step) for step in (-1, 0, *range(1, 30))]
    assert len({f"{rate:.3f}" for rate in rates[1:20]}) == 19 and min(rates) > 0
    assert share(1) < share(2) > share(3)


def test_some_norms_are_above_max_norm_and_one_is_just_below():
    for ranks in (1, 3):
        clipped = {}
        for case in cases("train", ranks):
            most, loop = case.arguments[0][MOST], assembling._Loop()
            (first, *_), _ = loop.trained([(*rank[:MOST], 1e9) for rank in case.arguments])[0]
            clipped[case.title] = math.hypot(*first) / most
        ratios = sorted(clipped.values())
        assert ratios[-2:] == pytest.approx([0.8, 1 / 0.4], rel=0.01)


def solution(function):
    """The stored answer that is written most plainly."""
    path = next(path for path in answers.stored("right", "exercise_08") if path.stem == "plainly")
    return getattr(answers.load(path), function)


def trained_alone(function, monkeypatch, number=0):
    monkeypatch.setattr(training, "all_reduce", lambda tensor: None)
    return training.train(function, *values.build(cases("train")[number].arguments[0], "cpu"))


def test_a_rank_notes_what_was_trained(monkeypatch):
    for number, case in enumerate(cases("train")):
        value = values.describe(trained_alone(solution("train"), monkeypatch, number))
        assert values.agree(value, case.expected[0], case.tolerance)


def test_a_batch_that_there_is_not_is_refused(monkeypatch):
    with pytest.raises(LookupError, match=r"batch_of\(0\): this call is for steps 1 to 3"):
        trained_alone(lambda *arguments: arguments[3](0), monkeypatch)


@pytest.mark.parametrize("losses", [
    [1, 2.0, True], (torch.tensor(1.0), torch.tensor([2])), torch.tensor([1, 2]), [],
])  # fmt: skip
def test_losses_of_several_kinds_are_numbers(losses):
    assert training._as_row(losses).tolist() == [float(loss) for loss in losses]


@pytest.mark.parametrize("losses", [
    None, 3.5, "123", ["1", "2"], [[1.0], [2.0]], {1: 2}, [None], iter([1.0]), torch.ones(2, 2),
    [torch.ones(2)], [float("nan"), None], [10**400], torch.tensor(1.0), [1.0] * 2000,
    [torch.tensor(1j)], [1j],
], ids=lambda losses: str(losses)[:12])  # fmt: skip
def test_what_are_no_losses_is_kept_as_it_is(losses):
    assert training._as_row(losses) is losses


# --- Part 2: a run beside the one that nothing happens to ---


def starts(function, number):
    return living.run(function, *cases("run")[number].arguments[0])


def test_the_undisturbed_run_is_the_same_again_and_no_two_steps_begin_alike():
    one, other = living._undisturbed(9), living._undisturbed(9)
    for step, parts in enumerate(one.before, start=1):
        assert other.find(parts) == (step, step, step)


@pytest.mark.parametrize("path", answers.stored("right", "exercise_08"), ids=lambda path: path.stem)
def test_a_run_goes_on_as_if_nothing_had_happened(path):
    function = answers.load(path).run
    assert [starts(function, number) for number in range(8)] == [case.expected[0] for case in cases("run")]


def test_a_later_start_that_finds_no_checkpoint_and_begins_otherwise_hears_nothing_of_checkpoints():
    started = []

    def run(module, optimizer, last, every, train_step, save, load):
        started.append(last)
        if len(started) == 2:
            torch.manual_seed(1)
        solution("run")(module, optimizer, last, every, train_step, save, load)

    lost_before_a_checkpoint = next(case for case in cases("run") if case.arguments[0] == (7, 3, (3, None)))
    value = values.describe(living.run(run, *lost_before_a_checkpoint.arguments[0]))
    played = Played(value, lost_before_a_checkpoint.arguments[0], "", ())
    sentence = resuming._mistake(Compared(1, lost_before_a_checkpoint, [played]))
    assert "begins with other weights, moments or random numbers" in sentence


def test_what_is_saved_is_not_what_is_trained_on():
    saved = []

    def run(module, optimizer, last, every, train_step, save, load):
        for step in range(1, last + 1):
            train_step(step)
            if step == 1:
                save(module.state_dict())
                saved.append(module.state_dict()["weight"].clone())
        saved.append(load()["weight"])

    starts(run, 0)
    assert torch.equal(*saved)


@pytest.mark.parametrize("caught", [Exception, BaseException])
def test_an_except_of_the_learners_does_not_save_the_machine(caught):
    def run(module, optimizer, last, every, train_step, save, load):
        for step in range(1, last + 1):
            try:
                train_step(step)
            except caught:
                save({})

    assert starts(run, 2)[0] == ((1, 2, 3, 4, 5), (), ())


@pytest.mark.parametrize("step", [0, 6, -1, "a", 1.5, None])
def test_a_step_that_there_is_not_is_refused(step):
    with pytest.raises(LookupError, match="this run has steps 1 to 5"):
        starts(lambda *arguments: arguments[4](step), 0)


def test_of_a_step_that_is_done_again_and_again_not_all_is_noted():
    ((steps, saved, off),) = starts(lambda *arguments: [arguments[4](1) for _ in range(200)], 0)
    assert (steps, saved, off) == ((1,) * 100, (), (1, 2, 2, 2))


# --- Part 3: the simulator, and what a formula of one line makes of it ---


def test_the_formula_is_within_the_tolerance_with_room_to_spare():
    apart = [predicting.Step()(*case.arguments[0]) / case.expected[0] - 1 for case in cases("step_seconds")]
    assert 0.005 < max(apart) < predicting.TOLERANCE / 3  # and in some case it is not the simulator's
    assert min(apart) > -1e-9


def test_no_mistake_hides_in_the_tolerance():
    """Each wrong formula is off by more, and not by little more, in some case."""
    for see in part("step_seconds").recognizers:
        if isinstance(see, report.AsIf):
            ratios = [see.formula(*case.arguments[0]) / case.expected[0] for case in cases("step_seconds")]
            assert max(abs(ratio - 1) for ratio in ratios) > 1.3 * predicting.TOLERANCE, see.sentence


# --- Part 4: state, activations and U, as the library has them ---


def test_state_and_utilization_agree_with_the_library():
    for case in cases("best"):
        rows, model, card, _ = case.arguments[0]
        model, card = given.Trained(*model), given.Card(*card)
        for each in given.configurations(rows):
            state = memory.model_state(model.parameters, zero_stage=each.zero_stage, ranks=each.ranks).total
            assert planning._state(each, model) == pytest.approx(state, abs=16)
            rate = planning._tokens(each, model) / each.seconds
            share = utilization.utilization(rate, model.flops_per_token, each.ranks, card.teraflops * 1e12)
            assert planning._utilization(each, model, card) == pytest.approx(share, rel=1e-12)
            assert 0.05 < share < 0.6


@pytest.mark.parametrize(("model", "config", "sequence"), [
    (planning._XL, CONFIGS["gpt-2-xl"], 1024),
    (planning._MEDIUM, CONFIGS["gpt-2-medium"], 1024),
    (planning._SEVEN, TransformerConfig(32, 4096, 32, 50_304, context=2048), 2048),
    (planning._LONG, TransformerConfig(32, 4096, 32, 50_304, context=8192), 8192),
])  # fmt: skip
def test_the_models_are_those_of_the_library(model, config, sequence):
    sizes = [model_bytes(config, 1, sequence, recompute, attention="fused") for recompute in ("none", "full")]
    assert model == (config.parameters, sequence, *sizes, config.flops_per_token(sequence))


def test_the_cards_are_those_of_the_data_sheets():
    for card, name in ((planning._A100, "a100-40gb"), (planning._H100, "h100-sxm"),
                       (planning._GEFORCE, "rtx-4090"), (planning._OLDER, "rtx-3090")):  # fmt: skip
        known = hardware.ACCELERATORS[name]
        assert (card.mebibytes * 2**20, card.teraflops * 1e12) == (known.memory_bytes, known.bf16_flops)
        assert card.sparse_teraflops == pytest.approx(2 * card.teraflops, rel=1e-3)


def test_no_hair_decides_which_configuration_is_best():
    for case in cases("best"):
        rows, model, card, critical = case.arguments[0]
        model, card = given.Trained(*model), given.Card(*card)
        shares = set()
        for each in given.configurations(rows):
            needed, tokens = planning._state(each, model) + planning._activations(each, model), None
            tokens = planning._tokens(each, model)
            for much, limit in ((needed, card.mebibytes * 2**20), (tokens, critical)):
                assert much == limit or abs(much / limit - 1) > 0.005
            if needed <= card.mebibytes * 2**20 and tokens <= critical:
                shares.add(planning._utilization(each, model, card))
        best, *others = [*sorted(shares, reverse=True), 0.0]
        assert not shares or best > 1.01 * others[0]


# --- Part 5 ---


def test_youngs_interval_loses_least():
    for case in cases("checkpoint_every"):
        write, hours, gpus, step = case.arguments[0]
        steps, lost = case.expected[0]
        between = hours * 3600 / gpus
        others = [write / (n * step) + n * step / (2 * between) for n in range(1, 4 * steps + 2)]
        assert lost == pytest.approx(min(others), rel=0.02)
        assert steps == 1 or steps * step <= math.sqrt(2 * write * between) < (steps + 1) * step


def test_llama_was_interrupted_every_few_hours():
    _, hours, gpus, _ = cases("checkpoint_every")[1].arguments[0]
    assert hours / gpus == pytest.approx(54 * 24 / 466, rel=1e-3)


# --- Cases for learners ---


def test_a_case_is_what_the_function_is_called_with():
    work, cluster = check.case("step_seconds", 3)
    assert (work.micro_batches, cluster.ranks, min(cluster.bandwidths)) == (1, 64, 6.25e9)
    configurations, model, card, _ = check.case("best", 1)
    assert (configurations[2].name, model.sequence, card.teraflops) == ("C", 1024, 312.0)
    assert check.case("checkpoint_every", 1)[2] == 1


@pytest.mark.parametrize(("arguments", "message"), [
    (("best_one", 1), "did you mean 'best'"),
    (("best", 99), "number=99: expected 1 to 12"),
    (("best", 0), "number=0: expected a positive whole number"),
])  # fmt: skip
def test_a_case_that_there_is_not_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check.case(*arguments)


# --- Answers to parts 2 to 5, judged without ranks: their functions talk to nobody ---


def judged(name, function):
    """The share of the cases that are right, and the report, as a check finds them."""
    judgements = []
    for case in cases(name):
        attempt = Attempt(1, [case], **_played(name, function, case))
        taken = tolerance._taken_for_expected(attempt, NEAR[name]) if name in NEAR else attempt
        judgements.append(judging.judge(part(name), taken))
    return judging.share(part(name), judgements), report.report(part(name), judgements)


def _played(name, function, case):
    arguments = case.arguments[0]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            if name == "run":
                value = living.run(function, *arguments)
            else:
                value = function(*given.made(check._PARTS[name][1], arguments))
    except Exception as error:
        return {"error": Raised(error)}
    return {"played": [[Played(values.describe(value), arguments, "", ())]]}


class Raised(RanksError):
    """As the report of a rank says it."""

    def __init__(self, error):
        super().__init__(f"Rank 0 raised {type(error).__name__}: {error}", [RankState(0, "raised", "")])


def wrong_answers():
    paths = answers.stored("wrong", "exercise_08")
    return [path for path in paths if answers.load(path).PART in ALONE]


@pytest.mark.parametrize("path", wrong_answers(), ids=lambda path: path.stem)
def test_each_wrong_answer_is_refused_with_its_sentence(path):
    answer = answers.load(path)
    value, text = judged(answer.PART, getattr(answer, answer.PART))
    assert value < 1.0
    assert answer.SENTENCE in text
    assert getattr(answer, "UNSAID", "no such sentence") not in text


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("path", answers.stored("right", "exercise_08"), ids=lambda path: path.stem)
def test_each_right_answer_passes(path, name):
    value, text = judged(name, getattr(answers.load(path), name))
    assert value == 1.0, text


# --- Mistakes ---

SIZES = (2, 3)
DRAWN = {size: cases("train", size) for size in SIZES}


def formulas(name):
    return [pytest.param(name, see, id=f"{name} {see.sentence[:60]}")
            for see in part(name).recognizers if isinstance(see, report.AsIf)]  # fmt: skip


def mistake_named(name, formula):
    """What a check says if a formula is computed in all cases of parts 3 to 5."""
    judgements = []
    for case in cases(name):
        value, expected = formula(*case.arguments[0]), case.expected[0]
        value = expected if near(value, expected, NEAR[name]) else value
        attempt = Attempt(1, [case], [[Played(value, case.arguments[0], "", ())]])
        judgements.append(judging.judge(part(name), attempt))
    return report.main_mistake(part(name), judgements)


@pytest.mark.parametrize(("name", "see"), [each for name in NEAR for each in formulas(name)])
def test_each_mistake_is_told_from_all_others(name, see):
    assert (mistake_named(name, see.formula) or "").startswith(see.sentence)


class Once:
    """A formula that computes each case once: many mistakes are compared with each other."""

    def __init__(self, formula):
        self._formula, self._made = formula, {}

    def __call__(self, arguments):
        key = id(arguments)  # of cases that are kept
        if key not in self._made:
            self._made[key] = self._formula(arguments)
        return self._made[key]


TRAINED = replace(check.TRAIN, world_sizes=SIZES, recognizers=[
    replace(see, formula=Once(see.formula)) if isinstance(see, report.AsIf) else see
    for see in check.TRAIN.recognizers
])  # fmt: skip


def as_results(case, see):
    """What would come back from ranks that have trained, or return losses, like this."""
    made = see.formula(case.arguments)
    for rank, (gradients, weights, (losses, kept)) in enumerate(case.expected):
        if isinstance(see, assembling._LossesAsIf):
            yield gradients, weights, (replace(losses, numbers=tuple(made[rank])), kept)
        else:
            rows, end = made[rank]
            used = tuple(replace(weights, numbers=tuple(each)) for each in rows)
            yield used, replace(weights, numbers=tuple(end)), (losses, kept)


@pytest.mark.parametrize(
    "see", [see for see in TRAINED.recognizers if isinstance(see, report.AsIf)],
    ids=lambda see: see.sentence[:60],
)  # fmt: skip
def test_each_mistake_of_training_is_told_from_all_others(see):
    judgements = []
    for size, drawn in DRAWN.items():
        played = [[Played(value, arguments, "", ())
                   for value, arguments in zip(as_results(case, see), case.arguments, strict=True)]
                  for case in drawn]  # fmt: skip
        judgements.append(judging.judge(TRAINED, Attempt(size, drawn, played)))
    assert (report.main_mistake(TRAINED, judgements) or "").startswith(see.sentence)


NOWHERE = {
    "step_seconds": lambda case: 0.01234,
    "best": lambda case: ("A", 0.1234),
    "checkpoint_every": lambda case: (7, 0.1234),
}


def mistakes_named(name, got):
    """What the recognizers of a part say to a result, case by case."""
    sentences = []
    for case in cases(name):
        compared = Compared(1, case, [Played(got(case), case.arguments[0], "", ())])
        if got(case) != case.expected[0]:
            assert compared.wrong_ranks
            part(name).in_words(compared, 0)
            sentences.append(next(filter(None, (see(compared) for see in part(name).recognizers)), None))
    return sentences


NOWHERE_BETWEEN = {
    **NOWHERE, "step_seconds": lambda case: predicting._COMPUTING(*case.arguments[0]) * 1.0631,
}  # fmt: skip


@pytest.mark.parametrize("name", ["step_seconds", "checkpoint_every"])
def test_a_number_from_nowhere_gets_no_wrong_explanation(name):
    """A sentence that names a mistake which was not made would send the learner astray."""
    assert set(mistakes_named(name, NOWHERE_BETWEEN[name])) <= {None, MORE_THAN_ALL}


MORE_THAN_ALL = (
    "This is more than all parts take one after another: K passes, each bucket's ring, and an optimizer's "
    "step. What is counted twice, or comes on top?"
)


@pytest.mark.parametrize("factor, says", [(0.5, "This is less than computing alone"), (9.0, MORE_THAN_ALL)])
def test_seconds_that_no_queue_can_give_are_called_so(factor, says):
    said = mistakes_named("step_seconds", lambda case: factor * 1.0317 * predicting._ONE_BY_ONE(
        *case.arguments[0]) if factor > 1 else factor * predicting._COMPUTING(*case.arguments[0]))
    assert all(sentence.startswith(says) for sentence in said) and len(said) == len(cases("step_seconds"))


def test_another_u_is_not_taken_for_another_choice():
    said = {sentence and sentence[:12] for sentence in mistakes_named("best", NOWHERE["best"])}
    assert said == {None, "Here none of", "The right co"}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize(
    "odd",
    [True, "text", (), (1,), (None, None), (1, 2, 3), Unknown("dict"), float("nan"), 2**999, ((), 1),
     (((1, 2),), "a"), ((1, 2), (3, 4)), ("A", None), ("A", "B"), (float("inf"), -1.0), ("A", float("nan")),
     Tensor("float32", (2,), (1.0, 2.0)), (Tensor("int64", (), (3,)), 0.5), None, (2**999, 10**300)],
    ids=lambda odd: str(odd)[:12],
)  # fmt: skip
def test_what_is_no_answer_at_all_ends_no_check(name, odd):
    assert len(mistakes_named(name, lambda case: odd)) > 4


@pytest.mark.parametrize(
    "odd",
    [None, 3, "text", (), Unknown("dict"), float("nan"), Tensor("float64", (2, 2), (1.0,) * 4),
     Tensor("float64", (1,), (1.0,)), Tensor("float64", (), (1.0,)), Tensor("float64", (3,), (math.nan,) * 3),
     (1.0, None), 2**999],
    ids=lambda odd: str(odd)[:12],
)  # fmt: skip
def test_odd_losses_end_no_check(odd):
    for case in DRAWN[2]:
        got = [(*expected[:2], (odd, expected[2][1])) for expected in case.expected]
        compared = Compared(2, case, [Played(each, (), "", ()) for each in got])
        assert compared.wrong_ranks == [0, 1]
        assert len(check.TRAIN.in_words(compared, 1)) == 2
        said = next(filter(None, (see(compared) for see in TRAINED.recognizers)), None)
        assert said is None or said.startswith("The weights are right.")


def test_what_was_trained_may_be_unreadable():
    for case in DRAWN[2]:
        for got in (None, (1, 2), ((), None, (None, 1)), ((None,), case.expected[0][1], (None, 4))):
            compared = Compared(2, case, [Played(got, (), "", ()), Played(case.expected[1], (), "", ())])
            assert next(filter(None, (see(compared) for see in TRAINED.recognizers)))
            check.TRAIN.in_words(compared, 0)


def test_the_first_step_of_a_call_is_not_always_the_first_of_a_run():
    assert {case.arguments[0][FIRST] for case in cases("train", 3)} == {1, 2, 3, 4, 5}
