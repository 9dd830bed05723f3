"""All exercises' checks: stored wrong answers are refused by name, right ones pass, a stub is "not yet"."""

import re
import subprocess
import sys

import pytest

from course_lib import checks
from tests.exercises import answers

EXERCISES = [f"exercise_{number:02}" for number in range(9)]
PARTS = [(exercise, name) for exercise in EXERCISES for name in answers.parts(exercise)]
EVERY = {"exercise_07": 40, "exercise_08": 60}  # whose own tests judge most answers in one process
WRONG = [path for exercise in EXERCISES
         for path in answers.some(answers.stored("wrong", exercise), EVERY.get(exercise, 30))]  # fmt: skip


def right_answers():
    """Each answer with some parts, on few ranks; all parts and numbers of ranks in the long run.

    The solutions are checked in full in every run of the tests, by their notebooks.
    """
    for exercise in EXERCISES:
        every = 24 if exercise in EVERY else 12
        for place, path in enumerate(answers.stored("right", exercise)):
            for number, (name, part) in enumerate(answers.parts(exercise).items()):
                most = max(part.world_sizes)
                marks = [pytest.mark.long] if (place + number) % every else []
                yield pytest.param(path, name, min(most, 3), marks=marks)
                if most > 3:
                    yield pytest.param(path, name, most, marks=pytest.mark.long)


def named(value):
    """In a test's name: an answer's exercise and file."""
    return f"{value.parent.name}-{value.stem}" if hasattr(value, "stem") else None


@pytest.mark.parametrize("path", WRONG, ids=named)
def test_a_wrong_answer_is_refused_with_its_sentence(path, short_limits, capfd):
    answer = answers.load(path)
    # Four ranks tell most mistakes apart, and take less long than five.
    most_ranks = getattr(answer, "MOST_RANKS", 4)
    value = answers.check(path.parent.name, answer.PART, answer, most_ranks)
    printed, errors = capfd.readouterr()
    assert value < 1.0
    assert answer.SENTENCE in printed
    assert getattr(answer, "UNSAID", "no such sentence") not in printed
    assert errors == ""


@pytest.mark.parametrize(("path", "name", "most_ranks"), list(right_answers()), ids=named)
def test_a_right_answer_passes(path, name, most_ranks, capfd):
    value = answers.check(path.parent.name, name, answers.load(path), most_ranks)
    printed, errors = capfd.readouterr()
    assert value == 1.0, printed
    assert "WRONG" not in printed
    assert errors == ""


@pytest.mark.parametrize("exercise", EXERCISES)
def test_wrong_answers_are_stored_for_every_part(exercise):
    stored = {path.stem: answers.load(path) for path in answers.stored("wrong", exercise)}
    assert {answer.PART for answer in stored.values()} == set(answers.parts(exercise))
    assert len(answers.stored("right", exercise)) > 2
    # A count of what is right tells nobody what is wrong.
    assert [name for name, answer in stored.items() if not names_a_mistake(answer.SENTENCE)] == []


def names_a_mistake(sentence):
    return not re.search(r"\d+ of \d+ ", sentence) and len(re.findall(r"[A-Za-z]{2,}", sentence)) > 1


def unfinished(*arguments):
    raise NotImplementedError()


@pytest.mark.parametrize(("exercise", "name"), PARTS)
def test_a_stub_is_calmly_not_yet_right(exercise, name, capfd):
    assert getattr(answers.checks_of(exercise), name)(unfinished) == 0.0
    printed, errors = capfd.readouterr()
    assert re.fullmatch(r".*: not yet\. Replace `raise NotImplementedError\(\)` by your code\.\n", printed)
    assert errors == ""


def test_the_notebooks_process_needs_no_torch():
    code = f"import sys; from {checks.__name__} import {', '.join(EXERCISES)}; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("False\n", "")
