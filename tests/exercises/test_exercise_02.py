"""The checks of exercise 02: every stored wrong answer is refused by name, every right one passes."""

import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from course_lib.checks import exercise_02 as check
from course_lib.checks import playing
from course_lib.checks.checking import check as check_part
from course_lib.checks.exercise_02 import broadcasting, in_place
from course_lib.checks.part import Case, Compared, Played
from tests.exercises import answers

PARTS = ("broadcast", "average", "star")


def part(name):
    return getattr(check, name.upper())


@pytest.fixture
def short_limits(monkeypatch):
    """Answers that hang need not hang for long."""
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 2)
    monkeypatch.setattr(playing, "SECONDS_FOR_ONE_WORLD_SIZE", 5)


WRONG = answers.some(answers.stored("wrong", "exercise_02"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_answer_is_refused_with_its_sentence(path, short_limits, capfd):
    answer = answers.load(path)
    # Eight ranks take longest, and add nothing where five are wrong.
    small = replace(part(answer.PART), world_sizes=[1, 2, 3, 4, 5])
    value = check_part(small, getattr(answer, answer.PART))
    printed, errors = capfd.readouterr()
    assert value < 1.0
    assert answer.SENTENCE in printed
    assert errors == ""


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("path", answers.stored("right", "exercise_02"), ids=lambda path: path.stem)
def test_a_right_answer_passes(path, name, capfd):
    value = getattr(check, name)(getattr(answers.load(path), name))
    printed, errors = capfd.readouterr()
    assert value == 1.0, printed
    assert "WRONG" not in printed
    assert errors == ""


def unfinished(*arguments):
    raise NotImplementedError()


@pytest.mark.parametrize("name", PARTS)
def test_a_stub_is_calmly_not_yet_right(name, capfd):
    assert getattr(check, name)(unfinished) == 0.0
    printed, errors = capfd.readouterr()
    assert re.fullmatch(r".*: not yet\. Replace `raise NotImplementedError\(\)` by your code\.\n", printed)
    assert errors == ""


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


def test_the_notebooks_process_needs_no_torch():
    code = "import sys; from course_lib.checks import exercise_02; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("False\n", "")
