"""The checks of exercise 03, beside what test_answers.py says of all exercises."""

import ast
import copy
import json
import random
import re

import pytest
import torch

from course_lib import all_reduce, ring_table
from course_lib.checks import exercise_03 as check
from course_lib.checks import playing, values
from course_lib.checks.exercise_03 import tensors
from course_lib.checks.part import Compared
from course_lib.classroom.submission import answer_cells
from course_lib.working_copy import COURSE_ROOT
from tests.exercises import answers


def test_messages_that_gloo_forgives_pass_the_part_about_gloo(capsys):
    """Only the part about NCCL may refuse them."""
    for name in ("stuck_on_nccl", "relies_on_tags"):
        (path,) = (path for path in answers.stored("wrong", "exercise_03") if path.stem == name)
        assert answers.check("exercise_03", "ring", answers.load(path), most_ranks=4) == 1.0


# --- Mutants of the solution ---


def solution():
    """The text of the solution's answer cells, by part."""
    notebook = COURSE_ROOT / "exercises" / "solutions" / "03_ring_all_reduce.ipynb"
    return answer_cells(json.loads(notebook.read_text(encoding="utf-8")))


def one_change(node):
    """What may become of a node: the mistakes that people make in a ring."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [ast.Constant(node.value - 1), ast.Constant(node.value + 1)]
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        changed = copy.copy(node)
        changed.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return [changed, *([ast.Pass()] if isinstance(node, ast.AugAssign) else [])]
    if isinstance(node, ast.Attribute) and node.attr in ("irecv", "isend"):
        return [ast.Attribute(node.value, {"irecv": "isend", "isend": "irecv"}[node.attr], node.ctx)]
    if isinstance(node, ast.For) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [ast.Pass()]
    return []


class Replace(ast.NodeTransformer):
    """Put another node in the place of one."""

    def __init__(self, old, new):
        self._old, self._new = old, new

    def visit(self, node):
        return self._new if node is self._old else super().visit(node)


def mutants(source):
    """The source with one change, for each change."""
    for number in range(sum(1 for _ in ast.walk(ast.parse(source)))):
        for which in range(2):
            tree = ast.parse(source)
            node = list(ast.walk(tree))[number]
            changes = one_change(node)
            if which < len(changes):
                yield ast.unparse(ast.fix_missing_locations(Replace(node, changes[which]).visit(tree)))


ANSWERS = solution()
MUTANTS = [(part, source) for part in ANSWERS for source in mutants(ANSWERS[part])]


def test_there_are_mutants_of_all_parts():
    assert {part for part, _ in MUTANTS} == {"chunk_to_send", "reduce_scatter", "all_gather", "ring"}
    assert len({source for _, source in MUTANTS}) == len(MUTANTS) > 30


@pytest.mark.long
@pytest.mark.parametrize(("part", "mutant"), MUTANTS, ids=[part for part, _ in MUTANTS])
def test_each_mutant_of_the_solution_is_refused(part, mutant, short_limits, tmp_path, capfd):
    path = tmp_path / "mutant.py"
    imports = "import torch\nimport torch.distributed as dist\n"
    path.write_text("\n\n".join([imports, *(ANSWERS | {part: mutant}).values()]), encoding="utf-8")
    value = answers.check("exercise_03", part, answers.load(path), most_ranks=4)
    printed, errors = capfd.readouterr()
    assert value < 1.0, mutant
    assert errors == ""


# --- What the checks are made of ---


@pytest.mark.parametrize("ranks", check.RING.world_sizes)
def test_sums_are_exact_in_every_order_but_where_they_are_to_round(ranks):
    for part in (check.REDUCE_SCATTER, check.ALL_GATHER, check.RING):
        for case in part.draw(ranks):
            described = [tensor for (tensor,) in case.arguments]
            given = values.build(tuple(described), "cpu")
            order = list(range(ranks))
            for _ in range(5):
                random.Random(ranks).shuffle(order)
                total = given[order[0]].clone()
                for rank in order[1:]:
                    total += given[rank]
                assert values.agree(values.describe(total), tensors.total(described), case.tolerance)


def test_sums_that_round_differ_by_the_order_from_three_ranks_on():
    for ranks in (3, 4, 5, 8):
        given = [values.build(tensor, "cpu") for tensor in tensors.rounding(12 * ranks + 5, ranks)]
        sums = [sum(given[rank:] + given[:rank]) for rank in range(ranks)]
        assert any(not torch.equal(one, sums[0]) for one in sums[1:])


@pytest.mark.parametrize("count", [0, 1, 3, 8, 13])
def test_chunks_are_those_of_tensor_split(count):
    for ranks in (1, 2, 3, 5, 8):
        expected = [chunk.tolist() for chunk in torch.arange(count).tensor_split(ranks)]
        assert [list(chunk) for chunk in tensors.chunks(count, ranks)] == expected


@pytest.mark.parametrize("name", ["REDUCE_SCATTER", "ALL_GATHER", "RING"])
def test_cases_are_the_same_at_every_check_and_one_is_secret(name):
    for ranks in (2, 5):
        cases = getattr(check, name).draw(ranks)
        assert cases == getattr(check, name).draw(ranks)
        assert [case.secret for case in cases] == [False] * (len(cases) - 1) + [True]
        assert len({case.title for case in cases}) == len(cases)
        assert sum(case.late_rank is not None for case in cases) >= 2


def left_by(function, part, ranks):
    """What a function leaves in the case that is drawn."""
    case = part.draw(ranks)[0]
    attempt = playing.play(function, [case], playing.limits_of(part))
    return part.draw_left(Compared(ranks, case, attempt.played[0]))


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_picture_is_the_one_of_the_lesson(ranks):
    half = left_by(all_reduce.reduce_scatter, check.REDUCE_SCATTER, ranks)
    assert half == (f"Left by your reduce_scatter on {ranks} ranks", ring_table.after(ranks, ranks - 1))
    _, whole = left_by(all_reduce.all_gather, check.ALL_GATHER, ranks)
    assert whole == ring_table.after(ranks, ring_table.steps(ranks))


def test_a_wrong_index_is_drawn_and_said_in_words(capsys):
    (path,) = (path for path in answers.stored("wrong", "exercise_03") if path.stem == "sends_the_same_chunk")
    answers.check("exercise_03", "reduce_scatter", answers.load(path), most_ranks=4)
    printed = capsys.readouterr().out
    assert "rank 1: expected chunk 1 is complete\n" in printed
    assert "\nLeft by your reduce_scatter on 4 ranks:\n" in printed
    assert re.search(r"\nrank 0  0___ +0___ +0___ +0__3 3×3\n", printed)


def test_a_picture_of_what_is_right_is_not_shown_with_what_is_wrong(capsys):
    (path,) = (path for path in answers.stored("wrong", "exercise_03") if path.stem == "not_written_back")
    answers.check("exercise_03", "ring", answers.load(path), most_ranks=4)
    assert "Left by" not in capsys.readouterr().out
