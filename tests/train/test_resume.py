"""A run that was stopped and resumed is the run that was not: the same bits."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from course_lib import measured_utilization, ranks, train
from course_lib.train import checkpoint, rank, ranks_agree, ways
from course_lib.train.errors import TrainingError
from tests.many_cases import run_cases
from tests.train.conftest import settings

pytestmark = pytest.mark.usefixtures("ranks_have_optimizers")

KINDS = ("buckets", "ddp", "step")
STEPS, STOPPED = 5, 3


def losses(outcome):
    return [record.loss for record in outcome.records]


def _whole_and_in_two(folder, kind, dtype):
    """The losses of a whole run and of one in two parts; dropout needs the random states.

    Each measures the peak first, for which it draws random numbers.
    """
    ranks_agree.usable_cores = lambda: dist.get_world_size()  # else there would be no U
    rank.peak_flops_of_ranks = partial(measured_utilization.peak_flops_of_ranks, sizes=(8,), repeats=1)
    of = {"data_parallel": kind, "dtype": dtype, "dropout": 0.2, "micro_batches": 2, "steps": STEPS,
          "utilization": True}  # fmt: skip
    whole = train.train(settings(**of, checkpoint=folder / "whole"))
    first = train.train(settings(**of, checkpoint=folder / "parts", stop_after=STOPPED))
    torch.rand(7)  # what else happens to the random state
    second = train.train(settings(**of, checkpoint=folder / "parts"))
    assert (first.is_stopped, second.resumed_from, whole.is_stopped) == (True, STOPPED, False)
    assert whole.peak_flops and second.peak_flops
    return losses(whole), losses(first) + losses(second)


CASES = [(kind, "float32") for kind in KINDS] + [("buckets", "fp16")]


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
def test_resumed_it_has_the_same_bits(tmp_path, count):
    cases = [(tmp_path / f"{kind} {dtype}", kind, dtype) for kind, dtype in CASES]
    for (folder, kind, _), of_ranks in zip(cases, run_cases(_whole_and_in_two, count, cases), strict=True):
        for whole, parts in of_ranks:
            assert whole == parts, kind
        one, other = (last_state(folder / name) for name in ("whole", "parts"))
        assert_same_bits(vars(one), vars(other), kind)


def last_state(folder: Path) -> checkpoint.State:
    found = checkpoint.newest(folder)
    assert found.path.name == f"step-{STEPS:08}.checkpoint"
    return checkpoint.state_of(found.content)


def assert_same_bits(one, other, where):
    assert type(one) is type(other), where
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other), where
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_same_bits(one[name], other[name], f"{where}, {name}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for index, pair in enumerate(zip(one, other, strict=True)):
            assert_same_bits(*pair, f"{where}, {index}")
    else:
        assert one == other, where


def test_it_goes_on_with_other_numbers_of_ranks_and_micro_batches(tmp_path):
    def begin():
        whole = train.train(settings(steps=STEPS))
        train.train(settings(steps=STEPS, checkpoint=tmp_path / "first", stop_after=STOPPED))
        return losses(whole)

    def go_on(folder):
        refused = []
        for changed in ({"hidden": 32}, {"steps": STEPS + 1}, {"dtype": "float32"}):
            try:
                train.train(settings(checkpoint=folder, **{"steps": STEPS, **changed}))
            except TrainingError as error:
                refused.append(str(error))
        more = {"micro_batches": 2, "data_parallel": "ddp", "bucket_mb": 0.001}
        outcome = train.train(settings(steps=STEPS, checkpoint=folder, **more))
        again = train.train(settings(steps=STEPS, checkpoint=folder))
        return refused, losses(outcome), (again.records, again.resumed_from)

    whole = ranks.run(begin, 1, device="cpu")[0]
    for refused, resumed, again in ranks.run(go_on, 3, tmp_path / "first", device="cpu"):
        assert resumed == pytest.approx(whole[STOPPED:], abs=1e-9)
        assert again == ([], STEPS)  # nothing was left to do
        assert [text.partition(": ")[2].partition(". ")[0] for text in refused] == [
            "hidden=16 there and 32 here", "steps=5 there and 6 here",
            "dtype='float64' there and 'float32' here",
        ]  # fmt: skip


def _one_gradient_is_infinite(kind):
    """Rank 1's, in the second step."""
    fires = []
    chosen = ways.chosen

    def with_hook(asked, module):
        way = chosen(asked, module)
        fires.clear()  # DDP's warm-up

        def spoil(gradient):
            fires.append(None)
            return gradient * torch.inf if len(fires) == 2 and torch.distributed.get_rank() == 1 else gradient

        module.head.weight.register_hook(spoil)
        return way

    ways.chosen = with_hook
    try:
        outcome = train.train(settings(dtype="fp16", data_parallel=kind, max_norm=None))
    finally:
        ways.chosen = chosen
    return [(record.is_skipped, record.loss) for record in outcome.records]


def test_an_infinite_gradient_of_one_rank_is_skipped_by_all(monkeypatch):
    for kind, of_ranks in zip(KINDS, run_cases(_one_gradient_is_infinite, 2, [(each,) for each in KINDS]),
                              strict=True):  # fmt: skip
        assert of_ranks[0] == of_ranks[1]
        skipped, seen = zip(*of_ranks[0], strict=True)
        assert skipped == (False, True, False, False, False), kind
        assert all(loss == loss for loss in seen)


def test_ranks_that_go_apart_end_the_run_without_a_checkpoint(tmp_path):
    def go_apart():
        start = rank._start

        def apart(asked, dtype):
            trained = start(asked, dtype)
            step = trained.optimizer.step

            def one_more(*arguments, **named):
                step(*arguments, **named)
                with torch.no_grad():
                    trained.module.norm.bias += torch.distributed.get_rank()

            trained.optimizer.step = one_more
            return trained

        rank._start = apart
        try:
            train.train(settings(checkpoint=tmp_path / "apart", checkpoint_every=2))
        except TrainingError as error:
            return str(error)

    for said in ranks.run(go_apart, 2, device="cpu"):
        assert said.startswith("After step 2: The ranks are out of step: 1 of ")
        assert "parameter norm.bias" in said and said.endswith("No checkpoint of it is written.")
    assert not list((tmp_path / "apart").glob("step-*"))


def test_a_folder_that_can_not_be_written_ends_the_run_on_all_ranks(tmp_path):
    """Before the first step if it is known then; else after it, with what is there left alone."""

    def begin():
        full = mock.patch.object(checkpoint, "_write_to_disk", side_effect=OSError(28, "No space left"))
        said = []
        train.train(settings(checkpoint=tmp_path / "full", stop_after=1))
        for name in ("file", "held", "full"):
            with pytest.raises(TrainingError) as refused, full:
                train.train(settings(checkpoint=tmp_path / name, checkpoint_every=2, timeout=0.2))
            said.append(str(refused.value))
        return said

    (tmp_path / "file").touch()
    with checkpoint.held(tmp_path / "held", 1):
        first, second = ranks.run(begin, 2, device="cpu")
    assert first == second == [
        f"checkpoint='{tmp_path}/file': expected a folder that can be written to (File exists)",
        f"Another run writes its checkpoints to {tmp_path}/held, and goes on: end it first, or take another "
        "--checkpoint folder.",
        f"After step 2 no checkpoint can be written to {tmp_path}/full (No space left). "
        "step-00000001.checkpoint is there as before. Mend that, and start the same command again.",
    ]


def test_ranks_with_different_settings_do_not_begin():
    def begin():
        said = []
        for more in {"seed": dist.get_rank()}, {"sequence": 10**7}:
            with pytest.raises(TrainingError) as refused:
                train.train(settings(**more))
            said.append(str(refused.value))
        return said

    first, second = ranks.run(begin, 2, device="cpu")
    assert first == second and first[1].startswith("sequence=10000000: expected less than the text has, ")
    assert first[0] == (
        "The ranks differ: seed=0 on rank 0, and 1 on rank 1. All machines need the same command and the "
        "same version of the course."
    )


def test_a_killed_rank_shows_no_lines_of_the_course():
    killed = partial(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(ranks.RankFailed) as failed:
        ranks.run(train.train, 2, settings(), killed, device="cpu")
    assert "SIGKILL" in str(failed.value) and ".py" not in str(failed.value)


def test_a_run_that_diverges_ends_on_all_ranks_and_keeps_no_ruined_weights(tmp_path):
    def ruin(optimizer, *_):
        optimizer.param_groups[0]["params"][0].data.fill_(torch.inf)

    def diverge():
        with pytest.raises(TrainingError) as by_loss:
            train.train(settings(learning_rate=1e300, warmup=0, max_norm=None))
        train.train(settings(checkpoint=tmp_path, stop_after=1))
        hook = register_optimizer_step_post_hook(ruin)
        with pytest.raises(TrainingError) as by_weights:
            train.train(settings(checkpoint=tmp_path, checkpoint_every=1))
        hook.remove()
        return str(by_loss.value), str(by_weights.value)

    first, second = ranks.run(diverge, 2, device="cpu")
    assert first == second == (
        "The loss of step 2 is nan: the training has diverged. A lower --learning-rate, or more --warmup, may"
        " help.",
        "After step 2 not all weights are finite: the training has diverged. "
        f"{tmp_path}/step-00000001.checkpoint is from before. A lower --learning-rate, or more --warmup, may "
        "help. That is another run, so give it another --checkpoint folder.",
    )
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-00000001.checkpoint"]
