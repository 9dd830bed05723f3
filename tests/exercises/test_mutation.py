"""The proof of the checks: mutants are made as they should be, told from the solution, and refused."""

import ast

import pytest

from course_lib.checks.part import ONE_PROCESS, Attempt, Case, Part, Played
from course_lib.checks.values import Tensor
from tools import mutate_solutions
from tools.mutation import comparing, inputs, operators, report, results, trial

ANSWER = """def step(rank, ranks):
    before = ranks
    ### BEGIN SOLUTION
    for handle in post(rank - 1, first=True):
        handle.wait()
    if rank < ranks:
        return left, rank / 2
    ### END SOLUTION
"""
MUTATED = [each.source for each in operators.mutants(ANSWER)]


@pytest.mark.parametrize(
    "line",
    [
        "for handle in post(rank + 1, first=True):", "for handle in post(rank - 2, first=True):",
        "for handle in post(rank, first=True):", "for handle in post(rank - 1):",
        "for handle in list(post(rank - 1, first=True))[1:]:", "for handle in post(rank - 1, first=False):",
        "if rank <= ranks:", "if not rank < ranks:", "return (right, rank / 2)", "return (rank / 2, left)",
        "return (left, rank)", "return (left, rank // 2)", "return (left, rank / 3)", "return",
    ],
)  # fmt: skip
def test_each_kind_of_mistake_is_made_once(line):
    assert sum(line in map(str.strip, source.splitlines()) for source in MUTATED) == 1


def test_a_wait_is_left_out_by_name():
    (mutant,) = [each for each in operators.mutants(ANSWER) if each.operator == "wait left out"]
    assert (mutant.before, mutant.after) == ("handle.wait()", "pass")
    assert "wait" not in mutant.source


def test_mutants_differ_from_the_answer_and_from_each_other_and_are_python():
    assert len(set(MUTATED)) == len(MUTATED) > 20
    assert ast.unparse(ast.parse(ANSWER)) not in MUTATED
    for source in MUTATED:
        ast.parse(source)


def test_what_learners_do_not_write_is_left_alone():
    assert all("before = ranks" in source for source in MUTATED)


@pytest.mark.parametrize("number", [f"{number:02}" for number in range(9)])
def test_each_check_has_inputs_of_its_own(number):
    exercise = trial.exercises()[number]
    for check in exercise.checks:
        assert inputs.runs(number, check)


def attempt(value, messages=()):
    case = Case.alone("one", (1,), None)
    return Attempt(1, [case], [[Played(value, (1,), "", messages)]])


@pytest.mark.parametrize(
    ("one", "other", "are_near"),
    [
        (1.0, 1.0 + 1e-12, True), (1.0, 1.001, False), (1, 1.0, False), (1.0, 1, True), (1, 2, False),
        ((1, "a"), (1, "b"), False), ((1,), (1, 2), False), (None, 0, False),
        (Tensor("float32", (1,), (1.0,)), Tensor("float32", (1,), (1.000001,)), True),
        (Tensor("float64", (1,), (1.0,)), Tensor("float64", (1,), (1.000001,)), False),
        (Tensor("float32", (1,), (1.0,)), Tensor("float64", (1,), (1.0,)), False),
    ],
)  # fmt: skip
def test_a_mutant_differs_if_what_it_returns_does(one, other, are_near):
    part = Part("f(x)", lambda _: [], world_sizes=ONE_PROCESS)
    assert (comparing.difference(part, [attempt(one)], [attempt(other)]) == "") is are_near


def test_a_mutant_that_does_it_in_another_way_differs():
    def accept(found):
        return "no messages here" if found.played[0].messages else None

    part = Part("f(x)", lambda _: [], accept=accept, world_sizes=ONE_PROCESS)
    assert "way" in comparing.difference(part, [attempt(1)], [attempt(1, ("a message",))])
    with pytest.raises(ValueError, match="the solution is not accepted"):
        comparing.difference(part, [attempt(1, ("a message",))], [attempt(1)])


def judged(number, answer, only=lambda mutant: True):
    """Results of an answer's mutants."""
    exercise = trial.exercises()[number]
    mutants = [each for each in operators.mutants(exercise.answers[answer]) if only(each)]
    assert mutants
    return [results.judge(number, answer, each) for each in mutants]


def test_mutants_of_a_formula_are_refused():
    """All of one answer; `python -m tools.mutate_solutions` does it with all of them."""
    found = judged("03", "chunk_to_send")
    assert [each for each in found if each.is_missed] == []
    assert any(not each.survived for each in found)


def test_a_missing_wait_is_refused():
    (found,) = judged("00", "pass_right", lambda mutant: mutant.operator == "wait left out")
    assert not found.survived
    assert found.check == "check_pass_right"


@pytest.mark.long
@pytest.mark.timeout(2000)
def test_98_per_cent_of_the_mutants_of_an_exercise_are_refused(tmp_path):
    todo = mutate_solutions.work(["00"])
    mutate_solutions.refuse_broken_solutions(["00"])
    mutate_solutions.run(todo, tmp_path, processes=2)
    found = results.load(tmp_path)
    assert len(found) == len(todo)
    assert report.refused(found) >= mutate_solutions.ENOUGH, report.text(found, len(todo))
    assert mutate_solutions.left(todo, found, again=False) == []
