"""The checks of exercise 04, beside what test_answers.py says of all exercises."""

import pytest

from course_lib import cost_model
from course_lib.checks import exercise_04 as check
from course_lib.checks.exercise_04 import choosing, fitting, predicting, sending
from course_lib.checks.part import Compared, Played
from course_lib.checks.values import Unknown

PARTS = ("sent_bytes", "busiest_direction", "predicted_seconds", "fit_ring", "choose")
SHAPES = {
    "sent_bytes": 11,
    "busiest_direction": 11,
    "predicted_seconds": 0.1234,
    "fit_ring": (17.0, 17e3),
    "choose": ("star", 0.1234, 0.2345),
}


def part(name):
    return getattr(check, name.upper())


def test_the_walk_through_the_messages_agrees_with_the_library():
    """Two ways to the same bytes: message by message, and by the chunks that a rank does not send."""
    for algorithm in ("star", "unchunked-ring", "ring"):
        for ranks in (1, 2, 3, 5, 8):
            for elements in (0, 1, 7, 16, 1000):
                traffic = cost_model.traffic(algorithm, elements, ranks)
                walked = [sending.sent(algorithm, rank, ranks, elements, 4) for rank in range(ranks)]
                came = [sending.received(algorithm, rank, ranks, elements, 4) for rank in range(ranks)]
                assert (tuple(walked), tuple(came)) == (traffic.sent, traffic.received)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 12, 64, 96, 1536, 4096])
def test_the_table_of_the_exercise_agrees_with_the_library(ranks):
    for algorithm in choosing.ALGORITHMS:
        arguments = 1000, 1e-3, 50e6
        expected = cost_model.all_reduce_seconds(algorithm, 1000, ranks, 1e-3, 50e6)
        assert predicting.seconds(algorithm, ranks, *arguments) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", PARTS)
def test_no_result_serves_for_two_cases(name):
    """So that no constant passes more than one."""
    expected = [str(case.expected) for case in part(name).draw(1)]
    assert len(set(expected)) == len(expected) > 4


@pytest.mark.parametrize("name", PARTS)
def test_one_case_is_secret_and_one_of_many_and_all_are_drawn_the_same_again(name):
    cases = part(name).draw(1)
    assert [case.secret for case in cases] == [False] * (len(cases) - 1) + [True]
    assert part(name).draw(1) == cases


def test_four_algorithms_are_the_best_somewhere_and_never_by_a_hair():
    """No algorithm is right everywhere, and no rounding decides."""
    best = []
    for case in check.CHOOSE.draw(1):
        name, seconds, next_seconds = choosing.choice(*case.arguments[0])
        best.append(name)
        assert next_seconds > 1.1 * seconds
    assert set(best) == {"ring", "unchunked-ring", "recursive-doubling", "halving-doubling"}


def test_the_points_are_a_little_off_and_tell_latency_and_bandwidth_well():
    """All honest ways to fit them come within half of the tolerance: see the right answers."""
    for case in check.FIT_RING.draw(1):
        ranks, sizes, seconds = case.arguments[0]
        latency, bandwidth = case.expected[0]
        for size, time in zip(sizes, seconds, strict=True):
            exact = cost_model.all_reduce_seconds("ring", size, ranks, latency, bandwidth)
            assert time == pytest.approx(exact, rel=fitting.NOISE + 1e-4)
        fit = cost_model.fit("ring", sizes, seconds, ranks)
        assert fit.latency == pytest.approx(latency, rel=fitting.TOLERANCE / 2)
        assert fit.bandwidth == pytest.approx(bandwidth, rel=fitting.TOLERANCE / 2)


def mistakes_named(name, got):
    """What the recognizers of a part say to a result, case by case."""
    sentences = []
    for case in part(name).draw(1):
        compared = Compared(1, case, [Played(got, case.arguments[0], "", ())])
        assert compared.wrong_ranks
        sentences.append(next(filter(None, (see(compared) for see in part(name).recognizers)), None))
    return sentences


@pytest.mark.parametrize("name", PARTS)
def test_a_number_from_nowhere_gets_no_wrong_explanation(name):
    """A sentence that names a mistake which was not made would send the learner astray."""
    assert set(mistakes_named(name, SHAPES[name])) <= {None, "The right algorithm, with other seconds"}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    "odd", [True, "text", (), (1,), (None, None), (1, 2, 3), Unknown("dict"), float("nan"), 2**999],
    ids=lambda odd: str(odd)[:10],
)  # fmt: skip
def test_what_is_no_answer_at_all_ends_no_check(name, odd):
    assert len(mistakes_named(name, odd)) > 4


@pytest.mark.parametrize(
    "odd", [(0.0, 0.0), (-1, -1), (1e-300, 1e300), (float("inf"), 1.0), (1.0, None), ("a", "b"), (1.0, True)],
    ids=str,
)  # fmt: skip
def test_odd_pairs_end_no_check_of_a_fit(odd):
    assert len(mistakes_named("fit_ring", odd)) > 4
