"""The checks of exercise 00: every stored wrong answer is refused by name, every right one passes."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from course_lib.checks import exercise_00 as check
from course_lib.checks import playing
from course_lib.checks.checking import check as check_part
from tests.exercises import answers

PARTS = {
    "neighbors": "neighbors",
    "pass_right": "pass_right",
    "exchange": "exchange",
    "ready_for_nccl": "exchange",
}


@pytest.fixture
def short_limits(monkeypatch):
    """Answers that hang need not hang for long."""
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 2)
    monkeypatch.setattr(playing, "SECONDS_FOR_ONE_WORLD_SIZE", 5)


@pytest.mark.parametrize("path", answers.stored("wrong", "exercise_00"), ids=lambda path: path.stem)
def test_a_wrong_answer_is_refused_with_its_sentence(path, short_limits, capfd):
    answer = answers.load(path)
    # Eight ranks take longest, and add nothing where five are wrong.
    part = getattr(check, answer.PART.upper())
    part = replace(part, world_sizes=[size for size in part.world_sizes if size < 8])
    value = check_part(part, getattr(answer, PARTS[answer.PART]))
    printed, errors = capfd.readouterr()
    assert value < 1.0
    assert answer.SENTENCE in printed
    assert errors == ""


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("path", answers.stored("right", "exercise_00"), ids=lambda path: path.stem)
def test_a_right_answer_passes(path, name, capfd):
    value = getattr(check, name)(getattr(answers.load(path), PARTS[name]))
    printed, errors = capfd.readouterr()
    assert value == 1.0, printed
    assert "WRONG" not in printed
    assert errors == ""


def test_no_ranks_numbers_can_be_computed_from_another_ranks():
    """Neither by a formula of the rank nor from one case to the next."""
    for draw in (check.PASS_RIGHT.draw, check.EXCHANGE.draw):
        cases = draw(8)
        firsts = [[tensor.numbers[0] for given in case.arguments for tensor in given] for case in cases[:3]]
        for first in firsts:
            steps = [later - earlier for earlier, later in pairwise(first)]
            assert len(set(first)) == len(first)
            assert len(set(steps)) > len(steps) / 2
        assert firsts[0] != firsts[1] != firsts[2]
        assert draw(8) == cases  # what is printed is the same at every check


def test_only_what_is_wrong_at_the_ends_alone_is_told_so(capsys):
    def wrong_from_1000(rank, ranks):
        return ((rank - 1) % ranks, (rank + 1) % ranks) if rank < 1000 else (0, 0)

    assert check.neighbors(wrong_from_1000) < 1.0
    assert "ends are wrong" not in capsys.readouterr().out


def unfinished(*arguments):
    raise NotImplementedError()


@pytest.mark.parametrize("name", PARTS)
def test_a_stub_is_calmly_not_yet_right(name, capfd):
    assert getattr(check, name)(unfinished) == 0.0
    printed, errors = capfd.readouterr()
    assert re.fullmatch(r".*: not yet\. Replace `raise NotImplementedError\(\)` by your code\.\n", printed)
    assert errors == ""


def test_what_is_no_function_is_refused(capsys):
    assert check.neighbors((0, 1)) == 0.0
    assert "expected a function to check, got (0, 1)" in capsys.readouterr().out


def test_messages_that_gloo_forgives_pass_the_part_about_gloo(capsys):
    """Only the part about NCCL may refuse them."""
    for name in ("stuck_on_nccl", "relies_on_tags"):
        (path,) = (path for path in answers.stored("wrong", "exercise_00") if path.stem == name)
        assert check.exchange(answers.load(path).exchange) == 1.0
