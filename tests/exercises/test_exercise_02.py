"""The checks of exercise 02, beside what test_answers.py says of all exercises."""

import math
from dataclasses import replace

import pytest

from course_lib.checks import exercise_02 as check
from course_lib.checks import judging, report
from course_lib.checks.exercise_02 import broadcasting, in_place
from course_lib.checks.exercise_02.star import _root_counts
from course_lib.checks.part import Attempt, Case, Compared, Played

PARTS = ("broadcast", "average", "star")


def part(name):
    return getattr(check, name.upper())


@pytest.mark.parametrize("name", PARTS)
def test_all_cases_are_drawn_the_same_again_and_the_last_one_is_secret(name):
    for ranks in part(name).world_sizes:
        cases = part(name).draw(ranks)
        # Tensors with nan are equal to themselves only as text.
        assert str(part(name).draw(ranks)) == str(cases)
        assert [case.secret for case in cases] == [False] * (len(cases) - 1) + [True]


def test_no_two_ranks_are_given_the_same():
    """Else what needs no message could pass, such as N times the own tensor."""
    for name in PARTS:
        for case in part(name).draw(5):
            given = [str(arguments) for arguments in case.arguments if arguments[-1] != 0]
            assert len(set(given)) == len(given) or "shape 1×0×2" in case.title


def test_what_large_numbers_expect_is_exact_in_float16_and_their_sums_are_not_in_it():
    for ranks in (1, 2, 3, 4, 5, 8):
        (case,) = (case for case in part("average").draw(ranks) if "float16" in case.title)
        total = sum(count for _, count in case.arguments)
        for place, expected in enumerate(case.expected_arguments[0][0].numbers):
            parts = [count / total * gradient.numbers[place] for gradient, count in case.arguments]
            assert sum(parts) == expected and expected % 2**4 == 0 and expected < 2**15
            assert all(part % 2**4 == 0 for part in parts)  # so no sum below 2**15 needs more than 11 bits
            assert sum(count * gradient.numbers[place] for gradient, count in case.arguments) > 65_504


def test_a_rank_without_examples_has_a_mean_over_nothing():
    for ranks in (2, 3, 4, 5, 8):
        arguments = [given for case in part("average").draw(ranks) for given in case.arguments]
        assert any(count == 0 for _, count in arguments)
        assert all(all(map(math.isnan, gradient.numbers)) == (count == 0) for gradient, count in arguments)


def left(case: Case, numbers):
    """What a check sees if all ranks have these numbers in their first argument."""
    played = []
    for first, *others in case.arguments:
        several = first if isinstance(first, tuple) else (first,)
        changed = tuple(replace(tensor, numbers=(numbers,) * len(tensor.numbers)) for tensor in several)
        changed = changed if isinstance(first, tuple) else changed[0]
        played.append(Played(None, (changed, *others), "", ()))
    return Compared(len(case.arguments), case, played)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_numbers_from_nowhere_get_no_wrong_explanation(name, ranks):
    """A sentence that names a mistake which was not made would send the learner astray."""
    for case in part(name).draw(ranks):
        wrong = left(case, 12345)
        said = {see(wrong) for see in part(name).recognizers} - {None}
        assert not wrong.wrong_ranks or said <= {in_place.reads_memory(wrong), broadcasting.ROOT_ALTERED}


def star_of(ranks, formula):
    """The judgement of a star that leaves what the formula makes of the arguments, or what is right."""
    cases = part("star").draw(ranks)
    made = [formula(case.arguments) if formula else [None] * ranks for case in cases]
    played = [
        [Played(None, (replace(right, numbers=tuple(numbers)) if numbers else right,), "", ())
         for (right,), numbers in zip(case.expected_arguments, left, strict=True)]
        for case, left in zip(cases, made, strict=True)
    ]  # fmt: skip
    return judging.judge(replace(part("star"), accept=lambda found: None), Attempt(ranks, cases, played))


@pytest.mark.parametrize(("wrong_in", "named"), [({2, 3, 4}, True), ({2}, False)])
def test_a_formula_that_would_be_wrong_in_right_world_sizes_is_not_named(wrong_in, named):
    sizes = (2, 3, 4, 5, 8)
    judgements = [star_of(ranks, _root_counts(2) if ranks in wrong_in else None) for ranks in sizes]
    assert {judgement.ranks for judgement in judgements if not judgement.right} == wrong_in
    sentence = report.main_mistake(part("star"), judgements) or ""
    assert ("counted twice" in sentence) == named
