"""Races are exactly those pairs that some durations let overlap."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.streams import Launch, Race, Record, Wait, races, schedule

COPY = Launch("copy", "main", ("gradient",), ("bucket",))
REDUCE = Launch("all-reduce", "comm", ("bucket",), ("bucket",))
READ = Launch("step", "main", ("bucket",))

streams, memory = st.sampled_from("ab"), st.lists(st.sampled_from("xyz"), max_size=2).map(tuple)
commands = st.one_of(
    st.builds(Launch, st.just("operation"), streams, memory, memory, st.floats(0, 5)),
    st.builds(Record, streams, st.sampled_from("12")), st.builds(Wait, streams, st.sampled_from("12")),
)  # fmt: skip
programs = st.lists(commands, max_size=12).map(
    lambda program: [replace(each, name=f"{place}") if isinstance(each, Launch) else each
                     for place, each in enumerate(program)])  # fmt: skip


@pytest.mark.parametrize("program, expected", [
    ([COPY, READ], []),  # a stream is in order
    ([COPY, REDUCE], [Race(COPY, REDUCE, "bucket")]),
    ([COPY, Record("main", "ready"), Wait("comm", "ready"), REDUCE], []),
    ([Record("main", "ready"), COPY, Wait("comm", "ready"), REDUCE], [Race(COPY, REDUCE, "bucket")]),
    ([Wait("comm", "ready"), COPY, Record("main", "ready"), REDUCE], [Race(COPY, REDUCE, "bucket")]),
    ([COPY, Record("main", "ready"), Wait("comm", "ready"), REDUCE, READ], [Race(REDUCE, READ, "bucket")]),
    ([READ, Launch("other", "comm", ("bucket",))], []),  # both only read
])  # fmt: skip
def test_what_races_is_what_no_event_orders(program, expected):
    assert races(program) == expected


def test_events_order_through_a_third_stream():
    program = [COPY, Record("main", "1"), Wait("other", "1"), Record("other", "2"), Wait("comm", "2"), REDUCE]
    assert races(program) == []


@given(programs, st.floats(0, 1))
def test_what_does_not_race_never_overlaps(program, host_seconds):
    runs = {run.operation.name: run for run in schedule(program, host_seconds)}
    racing = {(race.first.name, race.second.name) for race in races(program)}
    launched = list(runs.values())
    for place, second in enumerate(launched):
        for first in launched[:place]:
            one, other = first.operation, second.operation
            touches = {*one.writes} & {*other.reads, *other.writes} or {*one.reads} & {*other.writes}
            if touches and (one.name, other.name) not in racing:
                assert first.end <= second.start


@given(programs)
def test_what_races_overlaps_if_the_first_takes_long(program):
    for race in races(program):
        slow = [replace(each, seconds=1e6) if each is race.first else each for each in program]
        runs = {run.operation.name: run for run in schedule(slow, 0)}
        assert runs[race.second.name].start < runs[race.first.name].end


def test_the_host_launches_one_after_another():
    runs = schedule([COPY, Record("main", "ready"), Wait("comm", "ready"), REDUCE, READ], 4e-6)
    times = [(1e6 * run.start, 1e6 * run.end) for run in runs]
    # The copy is launched at 4 µs and lasts 10; the all-reduce, launched at 16, waits for nothing else.
    assert times == [pytest.approx(each) for each in ((4, 14), (16, 26), (20, 30))]


def test_a_duration_must_be_one():
    with pytest.raises(ValueError, match="seconds=-1: expected a number, 0 or more"):
        Launch("copy", "main", seconds=-1)


@pytest.mark.parametrize("what", ["reads", "writes"])
def test_a_single_name_is_not_taken_letter_by_letter(what):
    with pytest.raises(ValueError, match=f"{what}='bucket': expected a tuple of names, such as .'bucket',."):
        Launch("all-reduce", "comm", **{what: "bucket"})


def test_names_and_programs_may_come_from_generators():
    program = (COPY, Launch("all-reduce", "comm", iter(["bucket"]), iter(["bucket"])))
    assert len(races(iter(program))) == len(races(program)) == 1
    assert len(schedule(iter(program), 0)) == 2
