"""The checks of exercise 07, beside what test_answers.py says of all exercises."""

from itertools import pairwise

import pytest

from course_lib import buckets, simulator, timeline, utilization
from course_lib.checks import exercise_07 as check
from course_lib.checks import given, judging, report, tolerance, values
from course_lib.checks.exercise_07 import choosing, stepping, utilizing
from course_lib.checks.part import Attempt, Compared, Played
from course_lib.checks.values import Unknown
from course_lib.cost_model import all_reduce_seconds
from tests.exercises import answers

PARTS = (
    "hidden_and_exposed", "bucket_times", "step_seconds", "best_bucket", "mfu_and_hfu", "exposed_gpu_hours"
)  # fmt: skip


def part(name):
    return getattr(check, name.upper())


def cases(name):
    return part(name).draw(1)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_no_function_is_said(name, capsys):
    assert getattr(check, name)(17) == 0.0
    assert "expected a function to check, got 17" in capsys.readouterr().out


@pytest.mark.parametrize("name", PARTS)
def test_no_result_serves_for_two_cases(name):
    """So that no constant passes more than one."""
    expected = [str(case.expected) for case in cases(name)]
    assert len(set(expected)) == len(expected) > 4


@pytest.mark.parametrize("name", PARTS)
def test_one_case_is_secret_and_one_of_many_and_all_are_drawn_the_same_again(name):
    drawn = cases(name)
    assert [case.secret for case in drawn] == [False] * (len(drawn) - 1) + [True]
    assert len({case.title for case in drawn}) == len(drawn)
    assert cases(name) == drawn


# --- What is expected agrees with the library, which computes it in another way ---


def test_the_traces_agree_with_the_library():
    for case in cases("hidden_and_exposed"):
        spans, rank = given.spans(case.arguments[0][0]), case.arguments[0][1]
        hidden, exposed = timeline.hidden_seconds(spans), timeline.exposed_seconds(spans)
        assert case.expected[0] == (hidden[rank], exposed[rank])


def test_the_traces_are_as_read_trace_gives_them(tmp_path):
    for case in cases("hidden_and_exposed"):
        spans = given.spans(case.arguments[0][0])
        assert timeline.read_trace(timeline.save_trace(spans, tmp_path / "trace.json")) == spans


def test_sums_of_times_are_exact_where_they_are_compared_as_numbers():
    times = [time for case in cases("hidden_and_exposed") for span in given.spans(case.arguments[0][0])
             for time in (span.start, span.end)]  # fmt: skip
    for case in cases("bucket_times"):
        _, ready, seconds, end = case.arguments[0]
        times += [*ready, *seconds, end]
    assert all((16 * time).is_integer() for time in times)


def layers_of(model):
    """The model for the simulator: its forward pass belongs to the parameter whose gradient comes first."""
    times = [end - start for end, start in pairwise([*model.ready, 0.0])]
    return [simulator.Layer("", (size,), 0, time)
            for size, time in zip(model.gradient_bytes, times, strict=True)]  # fmt: skip


@pytest.mark.parametrize("name", ["step_seconds", "best_bucket"])
def test_the_steps_agree_with_the_simulator(name):
    for case in cases(name):
        model, network = given.Model(*case.arguments[0][0]), given.Network(*case.arguments[0][1])
        seconds = case.expected[0] if name == "step_seconds" else case.expected[0][1]
        bucket_mb = case.arguments[0][2] if name == "step_seconds" else case.expected[0][0]
        step = simulator.simulate_step(
            layers_of(model),
            lambda size, network=network: all_reduce_seconds(
                "ring", size, network.ranks, network.microseconds * 1e-6, network.gigabits * 1e9 / 8
            ),
            bucket_mb=bucket_mb, first_bucket_mb=bucket_mb, micro_batches=case.arguments[0][3],
        )  # fmt: skip
        assert seconds == pytest.approx(step.seconds, rel=1e-12)


def test_buckets_are_filled_as_the_library_does():
    for model in stepping.MODELS.values():
        for size in (0.001, 1, 5, 25, 1000):
            assert stepping.filled(model.gradient_bytes, size * 2**20) == buckets.assign(
                model.gradient_bytes, size * 2**20
            )


def test_the_last_gradient_is_complete_when_the_pass_ends():
    for model in stepping.MODELS.values():
        assert max(model.ready) == model.ready[0] == model.pass_seconds
        assert list(model.ready) == sorted(model.ready, reverse=True)


def test_utilizations_agree_with_the_library_and_with_what_was_published():
    found = {}
    for case in cases("mfu_and_hfu"):
        run, peaks = given.Run(*case.arguments[0][0]), dict(case.arguments[0][1])
        if run.dtype not in peaks:
            assert case.expected[0] is None
            continue
        shape = run.parameters, run.layers, run.heads * run.head_size, run.sequence
        mfu = utilization.mfu(run.tokens_per_second, *shape, run.devices, peaks[run.dtype])
        full = utilization.hfu(run.tokens_per_second, *shape, run.devices, peaks[run.dtype], "full")
        hfu = mfu + run.recomputed * (full - mfu)
        assert case.expected[0] == pytest.approx((mfu, hfu), rel=1e-12)
        found[case.title.partition(" on ")[0]] = 100 * mfu, 100 * hfu
    assert found["PaLM 540B"] == pytest.approx((46.2, 57.8), abs=0.05)
    assert found["MPT-70B"] == pytest.approx((42.57, 56.76), abs=0.015)  # which takes 989.5 for the peak
    assert found["MPT-7B"] == pytest.approx((64.23, 64.23), abs=0.015)


def test_the_bill_agrees_with_the_library():
    for case in cases("exposed_gpu_hours"):
        tokens, rate, devices, step, exposed = case.arguments[0]
        hours = utilization.gpu_hours(tokens, rate, devices, exposed / step)
        assert case.expected[0] == pytest.approx(hours, rel=1e-12)


def test_no_habit_chooses_the_bucket_size_and_no_hair_decides():
    places = set()
    for case in cases("best_bucket"):
        model, network, sizes, micro_batches = case.arguments[0]
        ordered = sorted(sizes)
        seconds = {size: stepping.Step()(model, network, size, micro_batches) for size in sizes}
        best, second = sorted(sizes, key=seconds.get)[:2]
        assert (best, seconds[best]) == case.expected[0]
        assert seconds[second] > 1.003 * seconds[best]
        places.add("smallest" if best == ordered[0] else "largest" if best == ordered[-1] else "between")
    assert places == {"smallest", "largest", "between"}


def test_most_sizes_are_best_somewhere():
    assert len({case.expected[0][0] for case in cases("best_bucket")}) > 5
    assert len(choosing.BEST_BUCKET.draw(1)) == 8


def cases_that_tell(name, other):
    """Whether ``other`` has another answer, for each of the cases; the last one is the secret one."""
    return [not tolerance.near(other(*case.arguments[0]), case.expected[0], 1e-6) for case in cases(name)]


@pytest.mark.parametrize("step", [
    stepping.Step(mebibyte=1e6), stepping.Step(mebibyte=1000 * 1024),
    stepping.Step(fill=stepping._only_above), stepping.Step(fill=stepping._never_above)],
    ids=["MB", "1,000 KiB", "only above", "never above"])  # fmt: skip
def test_how_a_bucket_is_filled_shows_in_a_case_and_in_the_secret_one(step):
    *shown, secret = cases_that_tell("step_seconds", step)
    assert any(shown) and secret


HABITS = {
    "largest": max, "smallest": min, "first": lambda peaks: peaks[0], "last": lambda peaks: peaks[-1],
    "second": lambda peaks: peaks[:2][-1],
}  # fmt: skip


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("choose", HABITS.values(), ids=HABITS.keys())
def test_no_habit_finds_the_peak_in_a_data_sheet(choose, dense):
    def peak(run, sheet):
        return choose([flops for name, flops in sheet.items() if not dense or "sparse" not in name])

    *shown, secret = cases_that_tell("mfu_and_hfu", utilizing.Way(peak=peak))
    assert any(shown) and secret


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_another_type_has_another_peak_in_a_case_and_in_the_secret_one(dtype):
    way = utilizing.Way(peak=lambda run, sheet: sheet.get(dtype, 1e12))
    *shown, secret = cases_that_tell("mfu_and_hfu", way)
    assert any(shown) and secret


# --- Cases for learners ---


def test_a_case_is_what_the_function_is_called_with():
    spans, rank = check.case("hidden_and_exposed", 5)
    assert (type(spans[0]), rank) == (timeline.Span, 1)
    assert check.case("mfu_and_hfu", 3)[0].head_size == 256
    model, network, *_ = check.case("step_seconds", 1)
    assert (model.pass_seconds, network.gigabits) == (0.3, 5)


@pytest.mark.parametrize(("arguments", "message"), [
    (("hidden", 1), "did you mean 'hidden_and_exposed'"),
    (("bucket_times", 10), "number=10: expected 1 to 9"),
    (("bucket_times", 0), "number=0: expected a positive whole number"),
])  # fmt: skip
def test_a_case_that_there_is_not_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check.case(*arguments)


# --- Answers, judged without ranks: their functions talk to nobody ---


def judged(name, function):
    """The share of the cases that are right, and the report, as a check finds them."""
    judgements = []
    for number, case in enumerate(cases(name), start=1):
        value = values.describe(function(*check.case(name, number)))
        attempt = Attempt(1, [case], [[Played(value, case.arguments[0], "", ())]])
        near = tolerance._taken_for_expected(attempt, stepping.ROUNDING)
        judgements.append(judging.judge(part(name), near))
    return judging.share(part(name), judgements), report.report(part(name), judgements)


@pytest.mark.parametrize("path", answers.stored("wrong", "exercise_07"), ids=lambda path: path.stem)
def test_each_wrong_answer_is_refused_with_its_sentence(path):
    answer = answers.load(path)
    value, text = judged(answer.PART, getattr(answer, answer.PART))
    assert value < 1.0
    assert answer.SENTENCE in text
    assert getattr(answer, "UNSAID", "no such sentence") not in text


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("path", answers.stored("right", "exercise_07"), ids=lambda path: path.stem)
def test_each_right_answer_passes(path, name):
    value, text = judged(name, getattr(answers.load(path), name))
    assert value == 1.0, text


# --- Mistakes ---

NOWHERE = {
    "hidden_and_exposed": lambda case: (0.1234, 0.2345),
    "bucket_times": lambda case: (((0.1234, 0.2345),) * len(case.arguments[0][0]), 0.3456),
    "step_seconds": lambda case: 0.1234,
    "best_bucket": lambda case: (7, 0.1234),
    "mfu_and_hfu": lambda case: (0.1234, 0.2345),
    "exposed_gpu_hours": lambda case: 0.1234,
}


def mistakes_named(name, got):
    """What the recognizers of a part say to a result, case by case."""
    sentences = []
    for case in cases(name):
        compared = Compared(1, case, [Played(got(case), case.arguments[0], "", ())])
        if case.expected[0] is not None:
            assert compared.wrong_ranks
            sentences.append(next(filter(None, (see(compared) for see in part(name).recognizers)), None))
    return sentences


@pytest.mark.parametrize("name", PARTS)
def test_a_number_from_nowhere_gets_no_wrong_explanation(name):
    """A sentence that names a mistake which was not made would send the learner astray."""
    assert set(mistakes_named(name, NOWHERE[name])) == {None}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    "odd",
    [True, "text", (), (1,), (None, None), (1, 2, 3), Unknown("dict"), float("nan"), 2**999, ((), 1),
     (((1, 2),), "a"), (((1, 2, 3),) * 3, 1), ((1, 2), (3, 4)), (25, None), (float("inf"), -1.0)],
    ids=lambda odd: str(odd)[:12],
)  # fmt: skip
def test_what_is_no_answer_at_all_ends_no_check(name, odd):
    assert len(mistakes_named(name, lambda case: odd)) > 4
