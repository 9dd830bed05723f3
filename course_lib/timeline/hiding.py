"""How much communication hides behind computing, and how much of it a step has to wait for.

Pure functions of spans: recorded, simulated, or read from a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from course_lib.timeline.spans import Span

_Interval = tuple[float, float]


def hidden_seconds(spans: Iterable[Span]) -> dict[int, float]:
    """Of each rank, the seconds in which it computes while its gradients are under way; summed over steps.

    Under way: at least one span of kind "communication" in the lane "communication".  Computing: a span of
    kind "compute" in the lane "compute", and none of kind "idle" or "communication" there: a layer that
    stands still inside its backward pass, since something waits, does not compute.  Several buckets that are
    under way at once count once.
    """
    return _by_rank(spans, _hidden)


def exposed_seconds(spans: Iterable[Span]) -> dict[int, float]:
    """Of each rank, the seconds that its steps have to wait for communication; summed over steps.

    For each step, from the end of its last span of kind "compute" in the lane "compute", which is the end of
    the backward pass, to the end of its last span of kind "communication" in the lane "communication"; 0 if
    that comes first.  To that are added the seconds before the end of the backward pass in which the rank
    stood still while gradients were under way: spans of kind "idle" or "communication" in the lane "compute".
    Where a step has no span of kind "compute", its first reduction's start takes the place of the end.
    """
    return _by_rank(spans, _exposed)


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


def _exposed(step: list[Span]) -> float:
    reductions, computing = _reductions(step), _computing(step)
    if not reductions:
        return 0.0
    if not computing:
        return max(span.end for span in reductions) - min(span.start for span in reductions)
    backward_end = max(span.end for span in computing)
    standing = _both(_covered(_standing(step)), [(-inf, backward_end)])
    after = max(span.end for span in reductions) - backward_end
    return max(0.0, after) + _length(_both(_covered(reductions), standing))


def _reductions(step: list[Span]) -> list[Span]:
    return [span for span in step if span.lane == span.kind == "communication"]


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
