"""Hidden and exposed seconds, compared with counting moments one by one."""

from dataclasses import astuple
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.checks.exercise_07 import tracing
from course_lib.timeline import Span, exposed_seconds, hidden_seconds, split_arrivals
from course_lib.timeline.spans import in_tracks


def reduction(start, end, rank=0, step=0):
    return Span(rank, "communication", "bucket", start, end, "communication", step)


def computing(start, end, rank=0, step=0):
    return Span(rank, "compute", "backward", start, end, step=step)


def waiting(start, end, rank=0, step=0):
    return Span(rank, "idle", "wait", start, end, step=step)


@pytest.mark.parametrize("spans, hidden, exposed", [
    ([computing(0, 10), reduction(4, 8), reduction(8, 13), waiting(10, 13)], 6, 3),
    ([computing(0, 10), waiting(10, 15), reduction(11, 15)], 0, 4),  # packing the buckets is no communication
    ([computing(0, 10), reduction(2, 5)], 3, 0),
    ([computing(0, 10), reduction(2, 6), reduction(4, 8)], 6, 0),  # two at once
    ([computing(0, 5), computing(5, 10), reduction(3, 12)], 7, 2),
    ([computing(0, 10), waiting(3, 7), reduction(3, 7)], 0, 4),  # a hook that waits for its reduction
    ([computing(0, 10), waiting(6, 12), reduction(3, 12)], 3, 6),
    ([computing(0, 4), waiting(4, 6), reduction(4, 6), computing(6, 10)], 0, 2),
    ([reduction(3, 7), reduction(9, 10)], 0, 5),
    ([computing(0, 1), reduction(0.5, 3), computing(2, 3)], 1.5, 1),  # a wait that nobody has recorded
    ([computing(0, 1), reduction(1, 2), reduction(3, 4)], 0, 2),  # from 2 to 3 nothing is under way
    ([computing(0, 10), waiting(10, 12)], 0, 0),
    ([Span(0, "optimizer state", "optimizer", 0, 9), computing(0, 2), reduction(1, 5)], 1, 3),
    # What record("communication") writes down stands in the lane of who computes.
    ([computing(0, 1), Span(0, "communication", "all-reduce", 1, 3)], 0, 2),
    ([computing(0, 4), Span(0, "communication", "all-reduce", 1, 3)], 0, 2),  # in a layer, which stands still
])  # fmt: skip
def test_a_step(spans, hidden, exposed):
    assert hidden_seconds(spans) == {0: hidden}
    assert exposed_seconds(spans) == {0: exposed}


def test_ranks_are_apart_and_steps_are_added_up():
    spans = [computing(0, 4, 2), reduction(3, 6, 2), computing(0, 4), reduction(1, 2)]
    later = [computing(10, 14, 2, step=1), reduction(13, 15, 2, step=1)]
    assert exposed_seconds(later + spans) == {0: 0, 2: 3}
    assert hidden_seconds(later + spans) == {0: 1, 2: 2}
    assert list(hidden_seconds(later + spans)) == [0, 2]


def test_no_spans_no_ranks():
    assert hidden_seconds([]) == exposed_seconds([]) == {}


moments = st.integers(0, 20)
any_span = st.builds(
    lambda kind, lane, times, step: Span(0, kind, "", min(times), max(times), lane, step),
    st.sampled_from(["compute", "idle", "communication", "optimizer state"]),
    st.sampled_from(["compute", "communication"]),
    st.tuples(moments, moments),
    st.integers(0, 1),
)


def covers(spans, moment, *kinds, lanes=("compute",)):
    return any(s.kind in kinds and s.lane in lanes and s.start <= moment < s.end for s in spans)


@settings(max_examples=200, deadline=None)
@given(st.lists(any_span, max_size=8))
def test_both_are_what_counting_moments_gives(spans):
    hidden = exposed = 0
    for _, step in groupby(sorted(spans, key=lambda span: span.step), key=lambda span: span.step):
        step = list(step)
        for moment in range(21):
            under_way = covers(step, moment, "communication", lanes=("compute", "communication"))
            computes = covers(step, moment, "compute") and not covers(step, moment, "idle", "communication")
            hidden += under_way and computes
            exposed += under_way and not computes
    assert sum(hidden_seconds(spans).values()) == hidden
    assert sum(exposed_seconds(spans).values()) == exposed


LANES = {"compute": "compute", "idle": "compute", "optimizer state": "compute",
         "communication": "communication"}  # fmt: skip
span_of_the_exercise = st.builds(
    lambda kind, times, rank: Span(rank, kind, "", min(times), max(times), LANES[kind]),
    st.sampled_from(list(LANES)), st.tuples(moments, moments), st.integers(0, 1),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(span_of_the_exercise, min_size=1, max_size=10))
def test_the_exercise_asks_for_the_same(spans):
    rank = spans[0].rank
    asked = tracing._swept()(tuple(map(astuple, spans)), rank)
    assert asked == (hidden_seconds(spans)[rank], exposed_seconds(spans)[rank])


# --- A reduction begins when the last rank has come to it ---


def test_what_a_rank_waits_for_the_others_is_told_apart():
    spans = [computing(0, 6), Span(0, "communication", "bucket 0", 2, 8, "communication"),
             computing(0, 7, 1), Span(1, "communication", "bucket 0", 5, 8, "communication")]  # fmt: skip
    split = split_arrivals(spans)
    beside = [(s.rank, s.kind, s.label, s.start, s.end) for s in split if s.lane == "communication"]
    assert beside == [(0, "idle", "bucket 0 waits", 2, 5), (0, "communication", "bucket 0", 5, 8),
                      (1, "communication", "bucket 0", 5, 8)]  # fmt: skip
    assert hidden_seconds(spans) == {0: 4, 1: 2} and exposed_seconds(spans) == {0: 2, 1: 1}
    assert hidden_seconds(split) == {0: 1, 1: 2} and exposed_seconds(split) == {0: 2, 1: 1}


def test_a_rank_that_waits_in_finish_for_a_late_one_is_not_exposed():
    spans = [computing(0, 1), waiting(1, 5), Span(0, "communication", "bucket 0", 1, 5, "communication"),
             computing(0, 4, 1), Span(1, "communication", "bucket 0", 4, 5, "communication")]  # fmt: skip
    assert exposed_seconds(spans) == {0: 4, 1: 1}
    assert exposed_seconds(split_arrivals(spans)) == {0: 1, 1: 1}


@settings(max_examples=200, deadline=None)
@given(st.lists(any_span, max_size=8))
def test_splitting_loses_and_adds_no_time(spans):
    split = split_arrivals(iter(spans))
    for lane in ("compute", "communication"):
        before, after = (sum(s.seconds for s in all_of if s.lane == lane) for all_of in (spans, split))
        assert before == after
    assert [s.start for s in split] == sorted(s.start for s in split)
    assert sorted(s for s in map(astuple, split) if s[5] == "compute") == sorted(
        s for s in map(astuple, spans) if s[5] == "compute")  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(any_span, max_size=12))
def test_in_a_track_spans_follow_or_lie_within_one_another(spans):
    tracks = in_tracks(spans)
    assert sorted(map(repr, spans)) == sorted(repr(span) for track in tracks for span in track)
    for track in tracks:
        for i, first in enumerate(track):
            for second in track[i + 1 :]:
                assert second.start >= first.end or second.end <= first.end
    if len(tracks) > 1:  # not without need: something crosses something
        assert any(a.start < b.start < a.end < b.end for a in spans for b in spans)
