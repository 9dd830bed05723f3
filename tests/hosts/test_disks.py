"""Machines that share no disk: rank 0 writes to its own, and the newest checkpoint on any of them is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.machines import machines, outputs
from tests.hosts.training import RATE, SECONDS_TO_RUN, Training, long

OWN = Path("checkpoints")  # in the folder in which a machine starts its command


def stop_after(run: Training, there: list, steps: int) -> list:
    agents = run.start(there, there[0], OWN, options=["--stop-after", str(steps)])
    for agent in agents:
        assert agent.wait(SECONDS_TO_RUN) == 0, outputs(agents)
    return agents


@long
def test_rank_0_moves_to_another_machine(real_links, tmp_path):
    """Agents are ranked by their addresses: machine-0 becomes rank 0 wherever it takes part."""
    run = Training(tmp_path, steps=30)
    with machines(3, tmp_path, RATE) as (first, second, third):
        stop_after(run, [second, third], 10)
        assert [(machine.folder / OWN).exists() for machine in (first, second, third)] == [False, True, False]

        moved = stop_after(run, [first, second], 10)
        assert "goes on after step 10, from step-00000010.checkpoint, which rank 1 has" in moved[0].output
        assert (first.folder / OWN / "step-00000020.checkpoint").exists()

        back = run.start([second, first], second, OWN)
        for agent in back:
            assert agent.wait(SECONDS_TO_RUN) == 0, outputs(back)
        assert "goes on after step 20, from step-00000020.checkpoint\n" in back[1].output
    run.assert_undisturbed()


@long
def test_a_checkpoint_that_is_on_none_of_the_machines_is_missed_in_words(real_links, tmp_path):
    run = Training(tmp_path, steps=10)
    with machines(3, tmp_path, RATE) as (first, second, third):
        stop_after(run, [first, second], 5)
        agents = run.start([second, third], second, OWN)
        for agent in agents:
            assert agent.wait(SECONDS_TO_RUN) == 0, outputs(agents)
        assert "begins with step 1: no machine has a checkpoint yet" in agents[0].output
    run.assert_undisturbed()


@long
@pytest.mark.parametrize("damaged", ["cut", "foreign"])
def test_a_torn_file_on_the_other_machine_is_put_aside(real_links, tmp_path, damaged):
    run = Training(tmp_path, steps=30)
    with machines(3, tmp_path, RATE) as (first, second, third):
        stop_after(run, [second, third], 10)
        newest = second.folder / OWN / "step-00000010.checkpoint"
        newest.write_bytes(newest.read_bytes()[:-100] if damaged == "cut" else b"mine")
        agents = run.start([first, second], first, OWN)
        for agent in agents:
            assert agent.wait(SECONDS_TO_RUN) == 0, outputs(agents)
        assert "step-00000010.checkpoint is not used" in agents[0].output
        assert "goes on after step 8, from step-00000008.checkpoint, which rank 1 has" in agents[0].output
    run.assert_undisturbed()
