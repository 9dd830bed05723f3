"""The checks of exercise 01, beside what test_answers.py says of all exercises."""

import pytest

from course_lib.checks import exercise_01 as check
from course_lib.checks.part import Compared, Played

PARTS = ("parameter_bytes", "model_state", "read_data_sheet", "most_layers", "frees_most")


def part(name):
    return getattr(check, name.upper())


@pytest.mark.parametrize("name", PARTS)
def test_no_result_serves_for_two_cases(name):
    """So that no constant passes more than one."""
    expected = [str(case.expected) for case in part(name).draw(1)]
    assert len(set(expected)) == len(expected) > 4


def test_each_change_is_the_best_somewhere_and_never_by_a_hair():
    """No change is right everywhere, and no rounding decides."""
    from course_lib.checks.exercise_01 import changes

    best = set()
    for case in check.FREES_MOST.draw(1):
        freed = sorted(changes.freed(*case.arguments[0]).items(), key=lambda change: change[1])
        best.add(freed[-1][0])
        assert freed[-1][1] > 1.05 * freed[-2][1]
    assert best == set(changes.CHANGES)


def mistakes_named(name, got):
    """What the recognizers of a part say to a result, case by case."""
    sentences = []
    for case, value in zip(part(name).draw(1), got, strict=True):
        compared = Compared(1, case, [Played(value, case.arguments[0], "", ())])
        if compared.wrong_ranks:
            sentences.append(next(filter(None, (see(compared) for see in part(name).recognizers)), None))
    return sentences


@pytest.mark.parametrize("name", PARTS)
def test_a_number_from_nowhere_gets_no_wrong_explanation(name):
    """A sentence that names a mistake which was not made would send the learner astray."""
    shapes = {
        "parameter_bytes": 7,
        "model_state": (7, 7, 7, 7),
        "read_data_sheet": (7, 7.0),
        "most_layers": 3000,
        "frees_most": ("recomputation", 7),
    }
    named = mistakes_named(name, [shapes[name]] * len(part(name).draw(1)))
    assert len(named) > 4
    assert set(named) == {None}


@pytest.mark.parametrize("name", PARTS)
def test_one_case_is_secret_and_one_of_many(name):
    cases = part(name).draw(1)
    assert [case.secret for case in cases] == [False] * (len(cases) - 1) + [True]
