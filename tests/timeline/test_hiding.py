"""Hidden and exposed seconds, compared with counting moments one by one."""

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.timeline import Span, exposed_seconds, hidden_seconds
from course_lib.timeline.spans import in_tracks


def reduction(start, end, rank=0, step=0):
    return Span(rank, "communication", "bucket", start, end, "communication", step)


def computing(start, end, rank=0, step=0):
    return Span(rank, "compute", "backward", start, end, step=step)


def waiting(start, end, rank=0, step=0):
    return Span(rank, "idle", "wait", start, end, step=step)


@pytest.mark.parametrize("spans, hidden, exposed", [
    ([computing(0, 10), reduction(4, 8), reduction(8, 13), waiting(10, 13)], 6, 3),
    ([computing(0, 10), waiting(10, 15), reduction(11, 15)], 0, 5),  # packing the buckets is waited for, too
    ([computing(0, 10), reduction(2, 5)], 3, 0),
    ([computing(0, 10), reduction(2, 6), reduction(4, 8)], 6, 0),  # two at once
    ([computing(0, 5), computing(5, 10), reduction(3, 12)], 7, 2),
    ([computing(0, 10), waiting(3, 7), reduction(3, 7)], 0, 4),  # a hook that waits for its reduction
    ([computing(0, 10), waiting(6, 12), reduction(3, 12)], 3, 6),
    ([computing(0, 4), waiting(4, 6), reduction(4, 6), computing(6, 10)], 0, 2),
    ([reduction(3, 7), reduction(9, 10)], 0, 7),
    ([computing(0, 10), waiting(10, 12)], 0, 0),
    ([Span(0, "optimizer state", "optimizer", 0, 9), computing(0, 2), reduction(1, 5)], 1, 3),
    # A message that is sent by who computes is no reduction beside it.
    ([computing(0, 5), Span(0, "communication", "send", 5, 9)], 0, 0),
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


def covers(spans, moment, *kinds, lane="compute"):
    return any(s.kind in kinds and s.lane == lane and s.start <= moment < s.end for s in spans)


@settings(max_examples=200, deadline=None)
@given(st.lists(any_span, max_size=8))
def test_both_are_what_counting_moments_gives(spans):
    hidden = exposed = 0
    for _, step in groupby(sorted(spans, key=lambda span: span.step), key=lambda span: span.step):
        step = list(step)
        ends = [s.end for s in step if s.kind == s.lane == "compute"]
        reductions = [s for s in step if s.kind == s.lane == "communication"]
        if not reductions:
            continue
        end = max(ends, default=min(s.start for s in reductions))
        for moment in range(21):
            under_way = covers(step, moment, "communication", lane="communication")
            stands = covers(step, moment, "idle", "communication")
            hidden += under_way and covers(step, moment, "compute") and not stands
            exposed += under_way and stands and moment < end and bool(ends)
            exposed += end <= moment < max(s.end for s in reductions)
    assert sum(hidden_seconds(spans).values()) == hidden
    assert sum(exposed_seconds(spans).values()) == exposed


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
