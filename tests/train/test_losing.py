"""A run under torchrun that loses a rank goes on by itself, with the losses of a run that lost nobody."""

import pytest

from course_lib import train
from course_lib.train import losing
from course_lib.train.errors import TrainingError
from tests.train.conftest import settings

OF = {"ranks": 2, "steps": 6, "checkpoint_every": 2}


@pytest.mark.parametrize("which", [{"rank": 2, "step": 5}, {"rank": -1, "step": 5}, {"rank": 1, "step": 2},
                                   {"rank": 1, "step": 7}])  # fmt: skip
def test_a_rank_or_a_step_that_there_is_not_is_refused(which):
    with pytest.raises(ValueError, match="expected one of 2 ranks, and a step from 3 to 6"):
        losing.run(settings(**OF), **which)


@pytest.mark.long  # lesson 08 does it in every run of the tests
@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_rank_costs_the_steps_since_the_checkpoint_and_nothing_else(rank):
    of = settings(**OF)
    whole = [record.loss for record in train.run(of)]
    lost = losing.run(of, rank=rank, step=6)
    assert lost.first in (whole[:5], whole[:6])  # rank 0 writes the log, and may be the one that is lost
    assert lost.goes_on_after == 4
    assert lost.then == whole[4:]
    assert lost.command.startswith(
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node 2 --max-restarts 1 "
        "-m course_lib.train ")  # fmt: skip
    assert "--steps 6 " in lost.command and "--checkpoint my_run" in lost.command


def test_a_run_that_takes_too_long_is_ended():
    with pytest.raises(TrainingError, match="torchrun has not ended well .not within 0.5 s.:"):
        losing.run(settings(**OF), rank=1, step=5, seconds=0.5)
