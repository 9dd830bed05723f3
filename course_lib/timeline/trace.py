"""Spans as a trace that browsers' trace viewers open: https://ui.perfetto.dev, chrome://tracing.

The format is Chrome's trace event format, which torch.profiler writes, too: times in microseconds, a process
for each rank, a thread for each of its lanes.  No two threads have the same number, and no process has 0:
Perfetto would take the one for the other, and leave out what then overlaps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from course_lib.timeline.spans import LANES, Span, in_tracks

# Parts of a microsecond, each 125 nanoseconds: exact as a float, and in whole nanoseconds, to which Perfetto
# rounds a start and a duration.  Else an event may end after the next one's start, and that is left out.
_PARTS = 8
_MOST_THREADS = 1000  # of a rank


def save_trace(spans: Iterable[Span], path: str | Path) -> Path:
    """Write the spans to ``path``; time starts with the earliest.  Raises ValueError without spans.

    Each span is a complete event ("ph": "X"): name, start and duration to an eighth of a microsecond, and in
    ``args`` its rank, kind, lane and step.  In a thread a viewer wants events that follow or lie within one
    another, so a lane whose spans do neither has several.
    """
    spans = list(spans)
    if not spans:
        raise ValueError("spans=[]: expected at least one span to save")
    begin = min(span.start for span in spans)
    events = [event for rank in sorted({span.rank for span in spans}) for event in _rank(rank, spans, begin)]
    path = Path(path)
    path.write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, indent=0), encoding="utf-8")
    return path


def _rank(rank: int, spans: Sequence[Span], begin: float) -> Iterator[dict]:
    process = (int(rank) + 1) * _MOST_THREADS  # not numpy's, which JSON does not know
    yield _name("process", process, process, f"rank {rank}")
    thread = process
    for lane in LANES:
        rounded = [_rounded(span, begin) for span in spans if span.rank == rank and span.lane == lane]
        for number, track in enumerate(in_tracks(rounded)):
            thread += 1
            yield _name("thread", process, thread, lane if number == 0 else f"{lane} {number + 1}")
            yield from (_event(span, process, thread) for span in track)


def _rounded(span: Span, begin: float) -> Span:
    """In whole parts of a microsecond, so that what touched still does."""
    start, end = (round(1e6 * _PARTS * (time - begin)) for time in (span.start, span.end))
    return Span(span.rank, span.kind, span.label, start, end, span.lane, span.step)


def _name(what: str, process: int, thread: int, name: str) -> dict:
    return {"ph": "M", "name": f"{what}_name", "pid": process, "tid": thread, "args": {"name": name}}


def _event(span: Span, process: int, thread: int) -> dict:
    return {
        "ph": "X",
        "cat": span.kind,
        "name": span.label or span.kind,
        "pid": process,
        "tid": thread,
        "ts": span.start / _PARTS,
        "dur": (span.end - span.start) / _PARTS,
        "args": {"rank": int(span.rank), "kind": span.kind, "label": span.label, "lane": span.lane,
                 "step": span.step},
    }  # fmt: skip


def read_trace(path: str | Path) -> list[Span]:
    """The spans of a trace that ``save_trace`` wrote, in order of start; time starts at 0.

    Raises ValueError for a file that holds something else.
    """
    try:
        events = json.loads(Path(path).read_text(encoding="utf-8"))["traceEvents"]
        spans = [_span(event) for event in events if event["ph"] == "X"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{Path(path).name}: expected a trace that save_trace wrote") from error
    return sorted(spans, key=lambda span: (span.start, -span.end))


def _span(event: dict) -> Span:
    args, start = event["args"], event["ts"]
    times = start / 1e6, (start + event["dur"]) / 1e6
    return Span(args["rank"], args["kind"], args["label"], *times, args["lane"], args["step"])
