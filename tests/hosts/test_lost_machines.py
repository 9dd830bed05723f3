"""Machines that vanish in the middle of a run: the others notice and say so, and only some steps are lost."""

from __future__ import annotations

import re

import pytest

from tests.hosts.machines import Machine, Started, machines, outputs, wait_until
from tests.hosts.training import EVERY, RATE, SECONDS_TO_RUN, TIMEOUT, Training, long

SECONDS_TO_NOTICE = 60  # what is closed is noticed at once, but machines are busy
LOST = re.compile(
    r"course train: rank (\d) on machine-(\d), in step (\d+): another rank is gone[^\n]*\n"
    r"Start the same command again, and the run goes on after step (\d+) "
)


def assert_says_what_is_lost(agent: Started, rank: int, machine: Machine) -> int:
    """Rank, machine and step, and the step to go on from, which it returns."""
    assert (found := LOST.search(agent.output)), outputs([agent])
    assert (int(found[1]), f"machine-{found[2]}") == (rank, machine.name)
    assert int(found[4]) == (int(found[3]) - 1) // EVERY * EVERY
    return int(found[4])


def assert_goes_on(run: Training, agents: list[Started], kept: int) -> None:
    """To the end, from the checkpoint, and with the losses of a run in which nothing happened."""
    for agent in agents:
        assert agent.wait(SECONDS_TO_RUN) == 0, outputs(agents)
    assert f"goes on after step {kept}, from step-{kept:08}.checkpoint" in agents[0].output
    run.assert_undisturbed()


def test_two_machines_train_and_when_one_is_lost_the_run_goes_on_elsewhere(real_links, tmp_path):
    """The short one of the tests below: from the checkpoint of two machines a single process goes on."""
    run = Training(tmp_path, steps=20)
    with machines(2, tmp_path, RATE) as (head, other):
        survivor, _ = run.start([head, other], head)
        run.wait_for_step(12)
        other.kill()
        assert survivor.wait(SECONDS_TO_NOTICE) == 1
        assert "2 ranks on 2 machines: rank 0 on machine-0, rank 1 on machine-1" in survivor.output
        kept = assert_says_what_is_lost(survivor, 0, head)
    outcome = run.go_on_here()
    assert outcome.resumed_from == kept
    run.assert_undisturbed()


@long
@pytest.mark.parametrize("count", [2, 3])
def test_machines_have_the_losses_of_one_process(real_links, tmp_path, count):
    run = Training(tmp_path, steps=30)
    with machines(count, tmp_path, RATE) as there:
        agents = run.start(there, there[0])
        for agent in agents:
            assert agent.wait(SECONDS_TO_RUN) == 0, outputs(agents)
    assert f"{count} ranks on {count} machines" in agents[0].output
    run.assert_undisturbed()


def lose(machine: Machine, how: str) -> None:
    """Its processes end, and the system still says so; or its cable is pulled; or both at once: no power."""
    if how in ("cable", "power"):
        machine.cut()
    if how in ("processes", "power"):
        machine.kill()


@long
@pytest.mark.parametrize("how", ["processes", "cable", "power"])
def test_the_others_end_and_say_so_and_the_same_command_goes_on(real_links, tmp_path, how):
    run = Training(tmp_path, steps=40)
    with machines(3, tmp_path, RATE) as there:
        head, lost, third = there
        agents = run.start(there, head)
        run.wait_for_step(20)
        lose(lost, how)
        kept = []
        for rank, machine in [(0, head), (2, third)]:
            assert agents[rank].wait(SECONDS_TO_NOTICE + TIMEOUT) == 1
            kept.append(assert_says_what_is_lost(agents[rank], rank, machine))
        assert kept[0] == kept[1]
        lost.kill()
        lost.restore()
        assert_goes_on(run, run.start(there, head), kept[0])


@long
@pytest.mark.parametrize("how", ["processes", "power"])
def test_without_the_head_all_end_and_others_go_on(real_links, tmp_path, how):
    """The agents' meeting place is gone, so none of them can go on; new ones meet elsewhere."""
    run = Training(tmp_path, steps=40)
    with machines(3, tmp_path, RATE) as there:
        head, second, third = there
        for machine in there:
            machine.set_tcp_retries(5)  # for torchrun, which by itself waits for as long as the kernel does
        agents = run.start(there, head)
        run.wait_for_step(20)
        lose(head, how)
        kept = []
        for rank, machine in [(1, second), (2, third)]:
            assert agents[rank].wait(SECONDS_TO_NOTICE + TIMEOUT) == 1
            kept.append(assert_says_what_is_lost(agents[rank], rank, machine))
        assert kept[0] == kept[1]
        assert_goes_on(run, run.start([second, third], second), kept[0])


@long
@pytest.mark.parametrize("how", ["processes", "cable"])
def test_agents_with_restarts_meet_again_by_themselves(real_links, tmp_path, how):
    """The one whose ranks have failed waits for a machine that is started again, or is back."""
    run = Training(tmp_path, steps=40)
    with machines(2, tmp_path, RATE) as (head, other):
        agents = run.start([head, other], head, RESTARTS="2")
        run.wait_for_step(20)
        lose(other, how)
        kept = assert_says_soon_what_is_lost(agents[0], head)
        if how == "processes":
            agents[1:] = run.start([other], head, count="2", RESTARTS="2")
        other.restore()
        assert_goes_on(run, agents, kept)


@long
def test_agents_with_restarts_wait_for_a_machine_only_so_long(real_links, tmp_path):
    run = Training(tmp_path, steps=40)
    with machines(2, tmp_path, RATE) as (head, other):
        agents = run.start([head, other], head, RESTARTS="2", RENDEZVOUS="join_timeout=10")
        run.wait_for_step(20)
        other.kill()
        assert_says_soon_what_is_lost(agents[0], head)
        assert agents[0].wait(SECONDS_TO_NOTICE) == 1
        assert "RendezvousTimeoutError" in agents[0].output


def assert_says_soon_what_is_lost(agent: Started, machine: Machine) -> int:
    wait_until(lambda: LOST.search(agent.output), SECONDS_TO_NOTICE + TIMEOUT, "a message", [agent])
    return assert_says_what_is_lost(agent, 0, machine)


@long
def test_elastic_agents_go_on_alone_and_take_the_other_in_again(real_links, tmp_path):
    run = Training(tmp_path, steps=800)
    quick = {"RENDEZVOUS": "last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3"}
    elastic = {"count": "1:2", "RESTARTS": "2", **quick}
    with machines(2, tmp_path, "100mbit") as (head, other):
        agents = run.start([head, other], head, **elastic)
        run.wait_for_step(20)
        other.kill()
        assert_says_soon_what_is_lost(agents[0], head)
        run.wait_for_step(30)
        with agents[0].held_until_it_is_asked_to_end("course_lib.train"):  # else it may be done before
            agents[1:] = run.start([other], head, **elastic)
        for agent in agents:
            assert agent.wait(SECONDS_TO_RUN) == 0, outputs(agents)
    places = re.findall(r"(\d) ranks? on (?:machine-0|2 machines)", agents[0].output)
    assert places == ["2", "1", "2"]
    assert re.search(r"stopped after step \d+ of 800", agents[0].output)  # when the other came back
    run.assert_undisturbed()
