"""How much communication hides behind computing, and how much of it a step has to wait for.

Pure functions of spans: recorded, simulated, or read from a trace.  There is one definition, which lesson 07
and its exercise use, too.  At each moment in which a rank's gradients are **under way**, the rank computes,
and then that moment of communication is **hidden**, or it does not, and then it is **exposed**.

Under way: at least one span of kind "communication" goes on, in whatever lane.  Computing: a span of kind
"compute" goes on in the lane "compute", and none there of kind "idle" or "communication": a layer that stands
still inside its backward pass, since something waits, does not compute.

An all-reduce can't end before the last rank has come to it.  What a rank that came earlier waits until then
is counted as communication, unless ``split_arrivals`` has told it apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from course_lib.timeline.spans import Span

_Interval = tuple[float, float]


def hidden_seconds(spans: Iterable[Span]) -> dict[int, float]:
    """Of each rank, the seconds in which gradients are under way while it computes; summed over steps.

    Several buckets that are under way at once count once, and so do a block and the layers in it.
    """
    return _by_rank(spans, _hidden)


def exposed_seconds(spans: Iterable[Span]) -> dict[int, float]:
    """Of each rank, the seconds in which gradients are under way and it does not compute; summed over steps.

    Whether anybody has recorded a wait makes no difference: where nothing is computed, nothing is hidden.
    """
    return _by_rank(spans, lambda step: _length(_covered(_reductions(step))) - _hidden(step))


def split_arrivals(spans: Iterable[Span]) -> list[Span]:
    """The same spans, but a reduction begins when the last rank has come to it; in order of start.

    A reduction: a span of kind "communication" in the lane "communication".  Those of all ranks with the same
    label in the same step are one.  What a rank waits there for the others becomes a span of kind "idle".
    """
    spans = list(spans)
    last: dict[tuple[int, str], float] = {}
    for span in filter(_beside, spans):
        which = span.step, span.label
        last[which] = max(last.get(which, span.start), span.start)
    split = [part for span in spans for part in
             (_parts(span, last[span.step, span.label]) if _beside(span) else [span])]  # fmt: skip
    return sorted(split, key=lambda span: (span.start, -span.end))


def _parts(span: Span, arrival: float) -> list[Span]:
    """What comes before the last rank's arrival, and what after it; only what takes time."""
    arrival = min(arrival, span.end)
    waits = replace(span, kind="idle", label=f"{span.label} waits", end=arrival)
    return [waits] * (arrival > span.start) + [replace(span, start=arrival)]


def _by_rank(spans: Iterable[Span], seconds: Callable[[list[Span]], float]) -> dict[int, float]:
    steps: dict[tuple[int, int], list[Span]] = {}
    for span in spans:
        steps.setdefault((span.rank, span.step), []).append(span)
    totals = dict.fromkeys(sorted({rank for rank, _ in steps}), 0.0)
    for (rank, _), of_step in sorted(steps.items()):
        totals[rank] += seconds(of_step)
    return totals


def _hidden(step: list[Span]) -> float:
    computing = _without(_covered(_computing(step)), _covered(_standing(step)))
    return _length(_both(_covered(_reductions(step)), computing))


def _beside(span: Span) -> bool:
    return span.lane == span.kind == "communication"


def _reductions(step: list[Span]) -> list[Span]:
    return [span for span in step if span.kind == "communication"]


def _computing(step: list[Span]) -> list[Span]:
    return [span for span in step if span.lane == span.kind == "compute"]


def _standing(step: list[Span]) -> list[Span]:
    return [span for span in step if span.lane == "compute" and span.kind in ("idle", "communication")]


# --- unions of intervals: sorted, and no two touch ---


def _covered(spans: Iterable[Span]) -> list[_Interval]:
    """The times that at least one of the spans covers."""
    covered: list[_Interval] = []
    for start, end in sorted((span.start, span.end) for span in spans):
        if covered and start <= covered[-1][1]:
            covered[-1] = covered[-1][0], max(covered[-1][1], end)
        else:
            covered.append((start, end))
    return covered


def _both(first: list[_Interval], second: list[_Interval]) -> list[_Interval]:
    pairs = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return [(start, end) for start, end in pairs if start < end]


def _without(first: list[_Interval], second: list[_Interval]) -> list[_Interval]:
    for start, end in second:
        pieces = [((a, min(b, start)), (max(a, end), b)) for a, b in first]
        first = [(a, b) for pair in pieces for a, b in pair if a < b]
    return first


def _length(intervals: list[_Interval]) -> float:
    return sum(end - start for start, end in intervals)
