"""Clocks of GPUs and of other machines, with made-up events and a clock that goes wrong by a known time."""

import time

import pytest
import torch.distributed as dist

from course_lib import ranks, timeline
from course_lib.timeline.clocks import HostClock, StreamClock, clock_for


class Stream:
    """Makes events; each takes the device's time when it is recorded, and shows it when it is waited for."""

    def __init__(self):
        self.milliseconds, self.log = 0.0, []

    def event(self):
        return Event(self)

    def synchronize(self):
        self.log.append("device synchronized")


class Event:
    def __init__(self, stream):
        self.stream, self.at, self.is_over = stream, None, False

    def record(self):
        self.at = self.stream.milliseconds
        self.stream.log.append(f"recorded at {self.at:g}")

    def synchronize(self):
        self.is_over = True
        self.stream.log.append(f"waited for {self.at:g}")

    def elapsed_time(self, end):
        assert self.is_over and end.is_over  # else CUDA refuses
        return end.at - self.at


def test_marks_on_a_stream_are_tied_to_the_host_at_one_event():
    stream = Stream()
    stream.milliseconds = 7000.0
    before = time.perf_counter()
    clock = StreamClock(stream.event, stream.synchronize)
    after = time.perf_counter()
    assert stream.log == ["device synchronized", "recorded at 7000", "waited for 7000"]
    marks = []
    for stream.milliseconds in (7002.0, 7500.0):
        marks.append(clock.mark())
    assert stream.log[3:] == ["recorded at 7002", "recorded at 7500"]  # the host waits only for the times
    first, second = map(clock.seconds, marks)
    assert second - first == pytest.approx(0.498)
    assert before <= first - 0.002 <= after


def test_a_cpu_has_the_hosts_clock():
    clock = clock_for("cpu")
    assert isinstance(clock, HostClock)
    before = time.perf_counter()
    mark = clock.mark()
    assert before <= clock.seconds(mark) <= time.perf_counter()


def ask_for_the_time():
    """Rank 1's clock is an hour fast."""
    hour = 3600 * (dist.get_rank() == 1)
    offset, error = timeline.clock_offset(lambda: time.perf_counter() + hour)
    record = timeline.Recorder(clock_offset=(offset, error))
    with record("compute"):
        pass
    (span,) = record.spans
    return offset + hour, error, span.start - time.perf_counter() - offset


def test_clocks_of_other_machines_are_compared_with_rank_0s():
    (first, *_), *others = ranks.run(ask_for_the_time, 3, device="cpu")
    assert first == 0
    for difference, error, shift in others:
        # All have one clock in truth, so the answer is right if it is no further off than it says.
        assert abs(difference) <= error + 1e-6
        assert -60 < shift < 0  # the recorder's spans have the offset
