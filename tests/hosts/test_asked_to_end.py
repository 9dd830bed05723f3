"""SIGTERM, as Slurm and people send it: a checkpoint, an end in order, and nothing is lost."""

from __future__ import annotations

import re
import signal
import time

import pytest

from tests.hosts.machines import machines, outputs, wait_until
from tests.hosts.training import RATE, SECONDS_TO_RUN, Training, long

STOPPED = re.compile(r"stopped after step (\d+) of")
SECONDS_TO_STOP = 60


def stopped_after(run: Training, agents: list) -> int:
    """The step, once rank 0 has said it."""
    wait_until(lambda: STOPPED.search(agents[0].output), SECONDS_TO_STOP, "the word stopped", agents)
    step = int(STOPPED.search(agents[0].output)[1])
    assert (run.checkpoints / f"step-{step:08}.checkpoint").exists()
    assert list(run.losses) == list(range(1, step + 1))
    return step


@long
@pytest.mark.parametrize("asked", ["all", "the head", "another", "all processes"])
def test_sigterm_to_agents(real_links, tmp_path, asked):
    """Of one is enough for all ranks.  Slurm sends it to ranks, too, which then get it twice."""
    run = Training(tmp_path, steps=40)
    with machines(2, tmp_path, RATE) as (head, other):
        agents = run.start([head, other], head)
        run.wait_for_step(20)
        for agent in {"the head": agents[:1], "another": agents[1:]}.get(asked, agents):
            agent.signal(signal.SIGTERM, everyone=asked == "all processes")
        step = stopped_after(run, agents)
        if asked == "another":
            assert agents[1].wait(SECONDS_TO_STOP) == 1
            agents[0].kill()  # it would wait for the other one for 300 s, which torchrun lets nobody change
        elif asked == "the head":
            assert agents[0].wait(SECONDS_TO_STOP) == 1
            assert agents[1].wait(SECONDS_TO_STOP) in (0, 1)  # 1 if it sees first that the head has gone
        else:
            assert [agent.wait(SECONDS_TO_STOP) for agent in agents] == [1, 1]
        again = run.start([head, other], head)
        for agent in again:
            assert agent.wait(SECONDS_TO_RUN) == 0, outputs(again)
        assert f"goes on after step {step}, from" in again[0].output
    run.assert_undisturbed()


@long
def test_ranks_that_get_sigterm_again_while_they_save_go_on_with_it(real_links, tmp_path):
    """An agent that was busy passes it on late, to ranks that Slurm has told before."""
    run = Training(tmp_path, steps=40)
    with machines(2, tmp_path, "400kbit") as (head, other):  # 3 s for a step
        agents = run.start([head, other], head)
        run.wait_for_step(1)
        for agent in agents:
            agent.signal(signal.SIGSTOP)
            agent.signal(signal.SIGTERM, everyone=True)
        time.sleep(1.5)
        for agent in agents:
            agent.signal(signal.SIGCONT)
        stopped_after(run, agents)
        assert [agent.wait(SECONDS_TO_STOP) for agent in agents] == [1, 1]
