"""Marking gives what the check in a notebook gives, and says how an answer failed."""

import pytest

from tests.classroom.learners import NEIGHBORS, part_of, statuses


@pytest.mark.parametrize("exercise", [
    "00", *(pytest.param(f"0{number}", marks=pytest.mark.long) for number in range(1, 9))
])  # fmt: skip
def test_a_solution_gets_all_points(learner, player, exercise):
    mark = learner(exercise).marked(player)
    assert {part.status for part in mark.parts} == {"pass"}
    assert mark.points == mark.most_points == len(mark.parts)
    assert mark.remarks == ()


@pytest.mark.parametrize("exercise", [
    "01", *(pytest.param(f"0{number}", marks=pytest.mark.long) for number in (0, *range(2, 9)))
])  # fmt: skip
def test_an_untouched_exercise_gets_none(learner, player, exercise):
    mark = learner(exercise).untouched().marked(player)
    assert {part.status for part in mark.parts} == {"missing"}
    assert mark.points == 0


def test_a_part_is_marked_case_by_case_with_the_mistakes_sentence(learner, player):
    swapped = "def neighbors(rank, ranks):\n    return (rank + 1) % ranks, (rank - 1) % ranks"
    part = learner("00").answer(neighbors=swapped).part(player, "neighbors")
    assert (part.status, part.points, part.most_points) == ("wrong", 0.0, 1.0)
    expected = [(f"N={ranks}", "wrong") for ranks in (1, 2, 3, 4, 5, 8)]
    assert [(case.title, case.status) for case in part.cases] == expected
    assert all(case.seconds > 0 for case in part.cases)
    assert part.mistake.startswith("Left and right are swapped")
    assert part.mistake in part.message
    assert "expected" in part.cases[1].message


def test_some_world_sizes_right_earn_their_share(learner, player):
    even = NEIGHBORS.replace("    return", "    if ranks % 2 and ranks > 1:\n        return 0, 0\n    return")
    part = learner("00").answer(neighbors=even).part(player, "neighbors")
    assert part.points == pytest.approx(0.66)
    assert sum(case.points for case in part.cases) == pytest.approx(4 / 6, abs=1e-3)
    assert "only for an even number of ranks" in part.mistake


@pytest.mark.long
def test_errors_hangs_and_crashes_are_told_apart(learner, player):
    answers = {
        "neighbors": "def neighbors(rank, ranks):\n    return undefined",
        "pass_right": "def pass_right(tensor):\n    while True:\n        pass",
        "exchange": "import os\ndef exchange(to_left, to_right):\n    os._exit(0)",
    }
    mark = learner("00").answer(**answers).marked(player)
    assert statuses(mark) == {
        "neighbors": "error", "pass_right": "hang", "exchange": "crash", "ready_for_nccl": "crash"
    }  # fmt: skip
    assert "NameError: name 'undefined' is not defined" in part_of(mark, "neighbors").message
    assert "line 2: return undefined" in part_of(mark, "neighbors").message
    assert "line 2: while True:" in part_of(mark, "pass_right").message
    assert mark.points == 0


def test_a_cell_that_does_not_run_costs_only_its_own_parts(learner, player):
    mark = learner("00").answer(pass_right="def pass_right(tensor:\n    return tensor").marked(player)
    assert statuses(mark)["neighbors"] == statuses(mark)["exchange"] == "pass"
    assert part_of(mark, "pass_right").status == "error"
    assert "The answer cell pass_right does not run: SyntaxError" in part_of(mark, "pass_right").message


def test_a_name_that_is_no_function_is_an_error(learner, player):
    part = learner("00").answer(neighbors="neighbors = (1, 2)").part(player, "neighbors")
    assert (part.status, part.message) == ("error", "neighbors is (1, 2): expected a function.")


@pytest.mark.parametrize("text", [
    f"{NEIGHBORS}\nprint(neighbors(0, 4))\n%timeit neighbors(0, 4)\nfiles = !ls",
    f"!ls\n%matplotlib inline\n{NEIGHBORS}",
    f"%%time\n{NEIGHBORS}",
    f"%%capture\n{NEIGHBORS}",
])  # fmt: skip
def test_magics_and_prints_in_a_cell_do_not_spoil_its_function(learner, player, text):
    mark = learner("00").answer(neighbors=text).marked(player, "neighbors")
    assert part_of(mark, "neighbors").status == "pass"
    assert mark.remarks == ()


def test_types_are_read_as_in_a_notebook(learner, player):
    text = f"{NEIGHBORS}\nassert neighbors.__annotations__['rank'] is int"
    text = text.replace("(rank, ranks)", "(rank: int, ranks: int) -> tuple[int, int]")
    mark = learner("00").answer(neighbors=text).marked(player, "neighbors")
    assert part_of(mark, "neighbors").status == "pass"
    assert mark.remarks == ()


def test_what_honest_answers_say_is_given_to_nobody_to_read(learner, player):
    text = "from __future__ import annotations\nimport dataclasses\n\n\n@dataclasses.dataclass\nclass Ring:\n"
    text += f"    ranks: int\n\n\n{NEIGHBORS}\n\n\nif __name__ == '__main__':\n    print(neighbors(0, 4))"
    mark = learner("00").answer(neighbors=text).marked(player, "neighbors")
    assert part_of(mark, "neighbors").status == "pass"
    assert mark.remarks == mark.to_read == ()


def test_functions_of_earlier_cells_can_be_used(learner, player):
    text = "def exchange(to_left, to_right):\n    return helper(to_left, to_right)"
    helper = "".join(learner("00").cell("exchange")["source"]).replace("def exchange", "def helper")
    answers = learner("00").answer(exchange=text, neighbors=f"{NEIGHBORS}\n\n{helper}")
    assert answers.part(player, "exchange").status == "pass"


@pytest.mark.long
def test_inputs_are_drawn_for_the_marking(learner, player):
    printing = "def pass_right(tensor):\n    print(tensor.reshape(-1)[:1].tolist())\n    return 0"
    first, again, other = (
        learner("00").answer(pass_right=printing).part(player, "pass_right", seed=seed).message
        for seed in ("a class", "a class", "another class")
    )
    assert first == again
    assert first != other
