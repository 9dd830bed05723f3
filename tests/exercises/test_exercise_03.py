"""The checks of exercise 03: every stored wrong answer is refused by name, every right one passes."""

import re
from dataclasses import replace

import pytest

from course_lib.checks import exercise_03 as check
from course_lib.checks import playing
from course_lib.checks.checking import check as check_part
from course_lib.checks.exercise_03.table import tabulated
from tests.exercises import answers

PARTS = {
    "chunk_to_send": "chunk_to_send",
    "reduce_scatter": "reduce_scatter",
    "all_gather": "all_gather",
    "ring": "ring",
    "ready_for_nccl": "ring",
}


@pytest.fixture
def short_limits(monkeypatch):
    """Answers that hang need not hang for long."""
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 2)
    monkeypatch.setattr(playing, "SECONDS_FOR_ONE_WORLD_SIZE", 10)


def check_quickly(name, function, most_ranks=5):
    """Eight ranks take longest, and add nothing where fewer are wrong."""
    part = getattr(check, name.upper())
    if part.one_process:
        return check_part(part, tabulated(function))
    return check_part(replace(part, world_sizes=[n for n in part.world_sizes if n <= most_ranks]), function)


@pytest.mark.parametrize("path", answers.stored("wrong", "exercise_03"), ids=lambda path: path.stem)
def test_a_wrong_answer_is_refused_with_its_sentence(path, short_limits, capfd):
    answer = answers.load(path)
    value = check_quickly(answer.PART, getattr(answer, PARTS[answer.PART]))
    printed, errors = capfd.readouterr()
    assert value < 1.0
    assert answer.SENTENCE in printed
    assert errors == ""


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("path", answers.stored("right", "exercise_03"), ids=lambda path: path.stem)
def test_a_right_answer_passes(path, name, capfd):
    value = getattr(check, name)(getattr(answers.load(path), PARTS[name]))
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
