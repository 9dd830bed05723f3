"""Limits are in the ranks' own time: a busy machine ends nothing that would have come to its end."""

import multiprocessing
import os
import sys
import time
from contextlib import ExitStack

import pytest
import torch
import torch.distributed as dist

from course_lib import ranks
from course_lib.machine import usable_cores
from course_lib.ranks import current, logbook, own_time, watching
from course_lib.ranks.own_time import CoreTime, OwnTime, core_time, own_seconds

needs_schedstat = pytest.mark.skipif(not core_time(os.getpid()), reason="this system does not tell")


@pytest.mark.parametrize(("spent", "cores", "counted"), [
    ([], 2, 4.0),  # nothing is known
    ([(0.0, 0.0)], 2, 4.0),  # sleeps
    ([(4.0, 0.0)], 2, 4.0),  # has a core
    ([(1.0, 3.0)], 2, 1.0),  # has a quarter of one
    ([(1.0, 3.0), (0.0, 0.0)], 2, 1.0),  # and another rank waits for it
    ([(1.0, 3.0)] * 8, 2, 4.0),  # eight take them from one another
    ([(0.5, 3.5)] * 8, 2, 2.0),  # and others take half
    ([(0.5, 3.5)] * 8, 16, 0.5),  # cores that others use
    ([(1.5, 0.0)], 2, 4.0),  # for the most part it sleeps
    ([(0.1, 2.4)], 2, 1.6),  # sleeps, and looks often whether it can go on
    ([(0.01, 3.99)], 2, 0.2),  # a limit comes in the end
    ([(4.1, 0.1)], 2, 4.0),  # times are not read at once
])  # fmt: skip
def test_what_counts_of_four_seconds(spent, cores, counted):
    assert own_seconds(4.0, [CoreTime(*each) for each in spent], cores) == pytest.approx(counted)


class Book:
    def __init__(self, pid):
        self.pid = pid


def test_time_goes_on_as_ranks_get_cores(monkeypatch):
    now, times = [0.0], {1: CoreTime(0.0, 0.0), 2: CoreTime(7.0, 0.0)}
    monkeypatch.setattr(own_time.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(own_time, "core_time", times.get)
    own = OwnTime([Book(1), Book(2), Book(0)])
    now[0], times[1] = 10.0, CoreTime(2.0, 8.0)
    assert own.seconds() == 2.0
    now[0] = 10.2  # too soon for another look
    assert own.seconds() == pytest.approx(2.2)
    now[0], times[1] = 20.0, CoreTime(12.0, 8.0)
    assert own.seconds() == 12.0
    del times[1]  # it has ended
    now[0] = 21.0
    assert own.seconds() == 13.0


@needs_schedstat
def test_the_system_tells_what_a_process_has_used():
    before = core_time(os.getpid())
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    assert core_time(os.getpid()).ran - before.ran >= 0.19
    assert core_time(0) is None and core_time(2**22 + 1) is None


def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"


def compute_for_ever():
    while True:
        pass


@pytest.mark.long
@needs_schedstat
def test_a_rank_that_computes_on_a_busy_machine_is_not_ended():
    """With five others on each core, a second of computing takes some six; the limit is three."""
    with ExitStack() as others:
        for _ in range(5 * usable_cores()):
            other = multiprocessing.get_context("fork").Process(target=compute_for_ever, daemon=True)
            other.start()
            others.callback(other.join)
            others.callback(other.kill)
        assert ranks.run(compute, 1, 1.0, timeout=3, device="cpu") == ["done"]
        with pytest.raises(ranks.RanksHung):
            ranks.run(compute, 1, 1e6, timeout=1, device="cpu")


def test_ranks_that_return_at_the_last_moment_did_not_hang(monkeypatch):
    look = watching.Run._records

    def look_late(self):
        time.sleep(2)
        return look(self)

    monkeypatch.setattr(watching.Run, "_records", look_late)
    assert ranks.run(sleep_for_a_second, 2, timeout=0.2, device="cpu") == ["done"] * 2


def test_after_a_failure_others_have_seconds_of_their_own_to_come_to_where_they_wait(monkeypatch):
    """On a busy machine rank 1 may come to its wait only after many seconds, and the report must name it."""
    monkeypatch.setattr(watching, "OwnTime", NoCores)
    monkeypatch.setattr(watching, "_SECONDS_FOR_OTHERS", 0.1)
    with pytest.raises(ranks.RankFailed) as failed:
        ranks.run(fail_or_wait, 2, device="cpu")
    assert failed.value.states[1].status == "waiting"


class NoCores:
    """Time on a machine so busy that ranks that compute have none."""

    def __init__(self, books):
        self._books, self._began = books, time.monotonic()

    def seconds(self):
        before_the_end = (logbook.STARTING, logbook.RUNNING)
        computes = any(book.state in before_the_end and not book.waits_in for book in self._books)
        return 0.0 if computes else time.monotonic() - self._began


def fail_or_wait():
    if dist.get_rank() == 0:
        raise ValueError
    time.sleep(1)
    dist.recv(torch.zeros(1), 0)


def sleep_for_a_second():
    time.sleep(1)
    return "done"


def pid_in_the_logbook():
    return current._current.book.pid == os.getpid() and os.getpid()


def test_each_rank_notes_its_process():
    pids = ranks.run(pid_in_the_logbook, 3, device="cpu")
    assert all(pids) and len(set(pids)) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_linux_tells():
    assert core_time(os.getpid())
