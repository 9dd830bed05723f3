"""The checks of exercise 01: every stored wrong answer is refused by name, every right one passes."""

import re

import pytest

from course_lib.checks import exercise_01 as check
from course_lib.checks import playing
from course_lib.checks.checking import check as check_part
from course_lib.checks.part import Compared, Played
from tests.exercises import answers

PARTS = ("parameter_bytes", "model_state", "read_data_sheet", "most_layers", "frees_most")


def part(name):
    return getattr(check, name.upper())


WRONG = answers.some(answers.stored("wrong", "exercise_01"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_answer_is_refused_with_its_sentence(path, monkeypatch, capfd):
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 2)
    answer = answers.load(path)
    value = check_part(part(answer.PART), getattr(answer, answer.PART))
    printed, errors = capfd.readouterr()
    assert value < 1.0
    assert answer.SENTENCE in printed
    assert getattr(answer, "UNSAID", "no such sentence") not in printed
    assert errors == ""


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("path", answers.stored("right", "exercise_01"), ids=lambda path: path.stem)
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


def test_the_notebooks_process_needs_no_torch():
    import subprocess
    import sys

    code = "import sys; from course_lib.checks import exercise_01; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("False\n", "")
