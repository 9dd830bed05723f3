"""The checks of exercise 00, beside what test_answers.py says of all exercises."""

from itertools import pairwise

from course_lib.checks import exercise_00 as check
from tests.exercises import answers


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


def test_what_is_no_function_is_refused(capsys):
    assert check.neighbors((0, 1)) == 0.0
    assert "expected a function to check, got (0, 1)" in capsys.readouterr().out


def test_messages_that_gloo_forgives_pass_the_part_about_gloo(capsys):
    """Only the part about NCCL may refuse them."""
    for name in ("stuck_on_nccl", "relies_on_tags"):
        (path,) = (path for path in answers.stored("wrong", "exercise_00") if path.stem == name)
        assert answers.check("exercise_00", "exchange", answers.load(path), most_ranks=4) == 1.0
