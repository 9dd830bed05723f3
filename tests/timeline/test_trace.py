"""Traces have the form that viewers and torch.profiler agree on, and can be read back."""

import json
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from course_lib.palette import COLORS
from course_lib.timeline import LANES, Span, read_trace, save_trace

STEP = [
    Span(1, "compute", "backward layers.0", 5.0, 5.001),
    Span(0, "compute", "backward layers.0", 5.0001, 5.0011),
    Span(0, "communication", "bucket 0", 5.0005, 5.002, "communication"),
    Span(0, "communication", "bucket 1", 5.001, 5.003, "communication"),
    Span(0, "idle", "wait", 5.0011, 5.003, step=3),
]


def events(path, phase):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == phase]


def about(microseconds):
    return pytest.approx(microseconds, abs=0.1)


def test_a_span_is_a_complete_event_of_its_ranks_process(tmp_path):
    complete = events(save_trace(STEP, tmp_path / "step.json"), "X")
    assert [(e["name"], e["pid"], e["ts"], e["dur"]) for e in complete] == [
        ("backward layers.0", 1000, about(100), about(1000)),
        ("wait", 1000, about(1100), about(1900)),
        ("bucket 0", 1000, about(500), about(1500)),
        ("bucket 1", 1000, about(1000), about(2000)),
        ("backward layers.0", 2000, 0, about(1000)),
    ]
    assert complete[1]["args"] == {"rank": 0, "kind": "idle", "label": "wait", "lane": "compute", "step": 3}


def test_processes_and_threads_are_named_and_what_crosses_has_a_thread_of_its_own(tmp_path):
    path = save_trace(STEP, tmp_path / "step.json")
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events(path, "M")}
    assert names == {
        ("process_name", 1000, 1000): "rank 0",
        ("thread_name", 1000, 1001): "compute",
        ("thread_name", 1000, 1002): "communication",
        ("thread_name", 1000, 1003): "communication 2",
        ("process_name", 2000, 2000): "rank 1",
        ("thread_name", 2000, 2001): "compute",
    }
    assert {e["name"]: e["tid"] for e in events(path, "X") if e["pid"] == 1000} == {
        "backward layers.0": 1001, "wait": 1001, "bucket 0": 1002, "bucket 1": 1003}  # fmt: skip


def test_no_two_threads_have_the_same_number(tmp_path):
    """Perfetto would show both as one, of the wrong process, without the spans that then overlap."""
    spans = [replace(span, rank=rank) for rank in range(5) for span in STEP]
    named = [e["tid"] for e in events(save_trace(spans, tmp_path / "a.json"), "M")]
    assert len(named) == len(set(named)) and 0 not in named


def test_events_have_the_fields_and_units_of_torchs_profiler(tmp_path):
    """Its trace of an operation that takes 20 ms; viewers need nothing that ours lack."""
    with torch.profiler.profile() as profiler:
        with torch.profiler.record_function("an operation"):
            torch.ones(1).add(1)
    profiler.export_chrome_trace(str(tmp_path / "torch.json"))
    theirs = [e for e in events(tmp_path / "torch.json", "X") if e["name"] == "an operation"]
    ours = events(save_trace(STEP, tmp_path / "ours.json"), "X")
    assert theirs and all(event.keys() == theirs[0].keys() for event in ours)
    for key in ("name", "cat", "ts", "dur", "args"):
        number = isinstance(theirs[0][key], int | float)
        assert all(isinstance(e[key], (int, float) if number else type(theirs[0][key])) for e in ours)
    their_names = {e["name"]: e["args"].keys() for e in events(tmp_path / "torch.json", "M")}
    for event in events(tmp_path / "ours.json", "M"):
        assert event["args"].keys() == their_names[event["name"]]


times = st.floats(0, 1e5)
any_span = st.builds(
    lambda rank, kind, label, start, length, lane, step: Span(
        rank, kind, label, start, start + length, lane, step),
    st.integers(0, 3), st.sampled_from(sorted(COLORS)), st.text(max_size=5), times, st.floats(0, 9),
    st.sampled_from(LANES), st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(any_span, min_size=1, max_size=12))
def test_what_is_read_is_what_was_saved_from_the_earliest_start(tmp_path_factory, spans):
    path = tmp_path_factory.mktemp("trace") / "a.json"
    found = read_trace(save_trace(spans, path))
    begin = min(span.start for span in spans)

    def in_words(span, begin):
        start, end = (round(1e6 * 8 * (time - begin)) for time in (span.start, span.end))
        return start, end, span.rank, span.kind, span.label, span.lane, span.step

    assert sorted(in_words(s, 0) for s in found) == sorted(in_words(s, begin) for s in spans)
    assert [s.start for s in found] == sorted(s.start for s in found)
    for event in events(path, "X"):
        assert event["ts"] >= 0 and event["dur"] >= 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-7, 10), min_size=2, max_size=20))
@example([1.9950411052437236, 1e-7, 1e-7, 1.0])  # one of these two rounds to nothing
def test_what_follows_at_once_does_not_overlap_when_a_viewer_adds_up(tmp_path_factory, lengths):
    ends = list(accumulate(lengths, initial=35_000.1))
    spans = [Span(0, "compute", "", start, end) for start, end in pairwise(ends)]
    path = save_trace(spans, tmp_path_factory.mktemp("trace") / "a.json")
    for first, second in pairwise(sorted(events(path, "X"), key=lambda event: (event["ts"], event["dur"]))):
        assert first["ts"] + first["dur"] == second["ts"]
        for microseconds in (first["ts"], first["dur"]):
            assert (1000 * microseconds).is_integer()  # Perfetto rounds each for itself, to nanoseconds


def test_ranks_may_be_numpys_numbers(tmp_path):
    numpy = pytest.importorskip("numpy")
    span = Span(numpy.int64(1), "compute", "", 0.0, 1.0)
    assert read_trace(save_trace([span], tmp_path / "a.json"))[0].rank == 1


def test_nothing_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="expected at least one span"):
        save_trace([], tmp_path / "a.json")


@pytest.mark.parametrize("content", [
    "", "[]", "{}", '{"traceEvents": 3}', '{"traceEvents": [{"ph": "X", "ts": 0, "dur": 1, "pid": 0}]}',
    '{"traceEvents": [{"ph": "X", "ts": 0, "dur": -1, "pid": 0, "args": '
    '{"rank": 0, "kind": "idle", "label": "", "lane": "compute", "step": 0}}]}',
])  # fmt: skip
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(ValueError, match=r"other.json: expected a trace that save_trace wrote"):
        read_trace(tmp_path / "other.json")


def test_spans_may_come_from_a_generator(tmp_path):
    assert len(read_trace(save_trace(iter(STEP), tmp_path / "step.json"))) == len(STEP)
    with pytest.raises(ValueError, match="expected at least one span"):
        save_trace(iter([]), tmp_path / "none.json")
