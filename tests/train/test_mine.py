"""The learner's own ring, accumulation and buckets, taken out of their notebooks."""

from __future__ import annotations

import json

import pytest
import torch
import torch.distributed as dist

from course_lib import ranks, train
from course_lib.ranks import RankFailed
from course_lib.train import lines, mine
from course_lib.train.errors import TrainingError
from course_lib.working_copy import COURSE_ROOT
from tests.many_cases import run_cases
from tests.train.conftest import settings

pytestmark = pytest.mark.usefixtures("ranks_have_optimizers")

SOLUTIONS = COURSE_ROOT / "exercises" / "solutions"
STUBS = COURSE_ROOT / "exercises"
ALL = (mine.RING, mine.ACCUMULATION, mine.BUCKETS)


def notebooks(folder, **answers):
    """The solutions, with other text in some answer cells: ``ex03={grade_id: text}``."""
    for exercise in ALL:
        notebook = json.loads((SOLUTIONS / f"{exercise.name}.ipynb").read_text())
        for cell in notebook["cells"]:
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
            cell["source"] = answers.get(f"ex{exercise.number}", {}).get(grade_id, cell["source"])
        (folder / f"{exercise.name}.ipynb").write_text(json.dumps(notebook))
    return folder


def pieces(folder):
    found = mine.read(folder)
    return [mine.piece(exercise, found) for exercise in ALL]


def test_the_solutions_have_all_pieces():
    assert [(each.name, callable(each.function)) for each in pieces(SOLUTIONS)] == [
        ("ring", True), ("train_step_by_tokens", True), ("train", True),
    ]  # fmt: skip


def test_stubs_have_none_and_it_is_said_which_function_is_missing():
    assert [(each.function, each.why_not) for each in pieces(STUBS)] == [
        (None, "exercise 03: ring is not filled in yet"),
        (None, "exercise 05: train_step_by_tokens is not filled in yet"),
        (None, "exercise 06: train is not filled in yet"),
    ]


def test_notebooks_that_are_not_there_or_are_none(tmp_path):
    (tmp_path / "03_ring_all_reduce.ipynb").write_text("{")
    ring, accumulation, _ = pieces(tmp_path)
    assert ring.why_not == "03_ring_all_reduce.ipynb: It is not a notebook: its text is not JSON."
    assert accumulation.why_not == "05_gradient_accumulation.ipynb: There is no such file."
    with pytest.raises(ValueError, match="mine='.*nowhere': expected a folder with your exercises"):
        mine.read(tmp_path / "nowhere")
    assert mine.read(None) == {}


STUB = "def {}({}):\n    raise NotImplementedError()"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"ex03": {"all_gather": STUB.format("all_gather", "row")}},
         "exercise 03: all_gather is not filled in yet"),
        ({"ex03": {"chunk_to_send": STUB.format("chunk_to_send", "*all")}},
         "exercise 03: chunk_to_send is not filled in yet"),
        ({"ex03": {"ring": "class ring:\n    pass"}}, "exercise 03: ring is not filled in yet"),
        ({"ex03": {"ring": "def ring(tensor:"}},
         "exercise 03: the cell ring fails with SyntaxError: '(' was never closed "
         "(<exercise 03, ring>, line 1)"),
        ({"ex03": {"ring": "import sys\nsys.exit(3)"}},
         "exercise 03: the cell ring fails with SystemExit: 3"),
        ({"ex03": {"ring": "ring = 1 / 0"}},
         "exercise 03: the cell ring fails with ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_what_a_piece_needs_has_to_be_filled_in_too(tmp_path, answers, why):
    ring, accumulation, buckets = pieces(notebooks(tmp_path, **answers))
    assert (ring.function, ring.why_not) == (None, why)
    assert accumulation.function and buckets.function


def test_a_ring_that_needs_none_of_the_other_cells_is_taken(tmp_path):
    ring = "def ring(tensor):\n    dist.all_reduce(tensor)"
    answers = {"all_gather": STUB.format("all_gather", "row"), "ring": ring}
    assert pieces(notebooks(tmp_path, ex03=answers))[0].function


def test_without_the_step_by_tokens_the_plain_one_is_taken(tmp_path):
    answers = {"train_step_by_tokens": STUB.format("train_step_by_tokens", "*all")}
    assert pieces(notebooks(tmp_path, ex05=answers))[1].name == "train_step"


# --- in a run ---

YOUR_RING = "all-reduce: your ring, from exercise 03"
KINDS = {  # whose code is said to run
    "buckets": "gradients: your train, from exercise 06, in buckets of 0.001 MiB",
    "step": "gradients: your train_step_by_tokens, from exercise 05",
    "ddp": "gradients: the library's loop and torch's DistributedDataParallel, in buckets of 0.001 MiB",
}


def _losses(**more):
    """And whose code the header named."""
    whose = []
    header = lines.header

    def noting(*arguments):
        whose.extend(arguments[-1])
        return header(*arguments)

    lines.header = noting
    try:
        outcome = train.train(settings(bucket_mb=0.001, **more))
    finally:
        lines.header = header
    return [record.loss for record in outcome.records], whose, outcome.noise.scale


def _case(more):
    try:
        return _losses(**more)
    except TrainingError as error:
        return str(error)


PLAIN_STEP = {"ex05": {"train_step_by_tokens": STUB.format("train_step_by_tokens", "*all")}}
WRONG = {
    "a ring that sums half": (
        {"ex03": {"ring": "def ring(tensor):\n    reduce_scatter(tensor.view(-1))"}}, "buckets",
        "Your ring of exercise 03 does not leave the sum of 7 elements on ranks 0 and 1."),
    "a ring that is right for few elements": (
        {"ex03": {"ring": "def ring(tensor):\n    own = tensor.clone()\n    dist.all_reduce(tensor)\n"
                  "    if len(tensor) > 1000:\n        tensor[-1] = 2 * own[-1]"}}, "buckets",
        f"Your ring of exercise 03 does not leave the sum of {settings().config.parameters:,} elements on"),
    "a ring that is right in float32": (
        {"ex03": {"ring": "def ring(tensor):\n    dist.all_reduce(tensor)\n"
                  "    if tensor.dtype == torch.float64:\n        tensor += 0.1"}}, "buckets",
        "Your ring of exercise 03 does not leave the sum of 7 elements on ranks 0 and 1."),
    "a loop that catches what ends the run": (
        {"ex06": {"train": "def train(module, batches, loss_function, optimizer, *more):\n"
                  "    for batch in batches:\n        for inputs, targets in batch:\n"
                  "            (loss_function(module(inputs), targets) / len(batch)).backward()\n"
                  "        try:\n            optimizer.step(), optimizer.step()\n"
                  "        except Exception:\n            pass"}}, "buckets",
        "optimizer.step() was called in step 2 of 5 for 0 of 208 tokens: expected one call in each step"),
    "a step that catches what ends the run": (
        {"ex05": {"train_step_by_tokens": "def train_step_by_tokens(module, batch, loss_function, optimizer,"
                  " *more):\n    try:\n        optimizer.step()\n    except Exception:\n        pass"}},
        "step",
        "optimizer.step() was called in step 1 of 5 for 0 of 208 tokens: expected one call in each step"),
    "buckets that are never averaged": (
        {"ex06": {"train": "def train(module, batches, loss_function, optimizer, *more):\n"
                  "    for batch in batches:\n        for inputs, targets in batch:\n"
                  "            (loss_function(module(inputs), targets) / len(batch)).backward()\n"
                  "        optimizer.step()\n        optimizer.zero_grad()"}}, "buckets",
        "After step 5: The ranks are out of step"),
    "a step for each micro-batch": (
        {"ex06": {"train": "def train(module, batches, loss_function, optimizer, *more):\n"
                  "    for batch in batches:\n        for inputs, targets in batch:\n"
                  "            loss_function(module(inputs), targets).backward()\n"
                  "            optimizer.step()\n            optimizer.zero_grad()"}}, "buckets",
        "optimizer.step() was called in step 1 of 5 for 112 of 208 tokens: expected one call in each step"),
    "a loop that ends too early": (
        {"ex06": {"train": "def train(module, batches, *more):\n    pass"}}, "buckets",
        "Your train of exercise 06 returned after step 0 of 5"),
    "a step that never steps": (
        {"ex05": {"train_step_by_tokens": "def train_step_by_tokens(*all):\n    pass"}}, "step",
        "Your train_step_by_tokens of exercise 05 has called optimizer.step() 0 times in step 1"),
}  # fmt: skip


def test_the_learners_pieces_train_as_the_librarys_do(tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    notebooks(plain, **PLAIN_STEP)
    wrong = {name: tmp_path / name for name in WRONG}
    for name, folder in wrong.items():
        folder.mkdir()
        notebooks(folder, **WRONG[name][0])
    cases = [{"micro_batches": 2}]
    cases += [{"micro_batches": 2, "mine": SOLUTIONS, "data_parallel": kind} for kind in KINDS]
    cases += [{"micro_batches": 2, "mine": plain, "data_parallel": "step"},
              {"micro_batches": 2, "mine": SOLUTIONS, "all_reduce": "torch"}]  # fmt: skip
    cases += [{"micro_batches": 2, "mine": wrong[name], "data_parallel": WRONG[name][1]} for name in WRONG]
    by_case = run_cases(_case, 2, [(case,) for case in cases])
    librarys, *own = [of_ranks[0] for of_ranks in by_case[:6]]
    for losses, _, noise in own:
        assert losses == pytest.approx(librarys[0], abs=1e-9)
        assert noise == pytest.approx(librarys[2])
    assert [whose for _, whose, _ in own[:3]] == [[YOUR_RING, gradients] for gradients in KINDS.values()]
    assert own[3][1][1] == "gradients: your train_step, from exercise 05"
    assert own[4][1] == ["all-reduce: torch's", KINDS["buckets"]]
    for of_ranks, (_, _, said) in zip(by_case[6:], WRONG.values(), strict=True):
        assert all(isinstance(text, str) and text.startswith(said) for text in of_ranks), of_ranks


def calls_of_the_ring(call):
    calls = []

    def ring(tensor):
        calls.append(tensor.numel())
        dist.all_reduce(tensor)

    cell = f"import torch\nimport torch.distributed as td\ndef ring(tensor):\n    {call}"
    found = {mine.RING: {"ring": cell}}
    mine.piece(mine.RING, found, mine.SummedBy(ring, torch.device("cpu"))).function(torch.ones(3))
    return len(calls)


@pytest.mark.parametrize("call", [
    "dist.all_reduce(tensor)", "torch.distributed.all_reduce(tensor)", "td.all_reduce(tensor)",
    "dist.all_reduce(tensor, group=dist.group.WORLD)", "dist.all_reduce(tensor, async_op=True).wait()",
])  # fmt: skip
def test_the_learners_ring_sums_however_the_all_reduce_is_spelled(call):
    assert ranks.run(calls_of_the_ring, 2, call, device="cpu") == [1, 1]


def test_an_error_names_the_learners_line(tmp_path):
    notebooks(tmp_path, ex03={"ring": "def ring(tensor):\n    raise RuntimeError('my ring broke')"})
    with pytest.raises(RankFailed) as failed:
        ranks.run(train.train, 2, settings(mine=tmp_path), device="cpu")
    assert "raised RuntimeError: my ring broke" in str(failed.value)
    assert "in ring, exercise 03, line 2: raise RuntimeError('my ring broke')" in str(failed.value)
