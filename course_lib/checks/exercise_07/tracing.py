"""Part 1: hidden and exposed seconds from the spans of a trace.

All times are multiples of 1/16 s, so that sums of them are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, replace
from itertools import pairwise

from course_lib.checks import mistakes
from course_lib.checks.given import as_it_is, spans
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.timeline import LANES, Span

ARGUMENTS = (spans, as_it_is)
_COMPUTE, _COMMUNICATION, _IDLE = "compute", "communication", "idle"

# --- Cases: a rank's step is what it computes, its buckets, and where it waits ---

_Bars = Sequence[tuple[str, float, float]]  # label, start, end


def _step(compute: _Bars, buckets: _Bars, waits: _Bars, rank: int = 0) -> list[Span]:
    """With an optimizer at its end, for an eighth of a second."""
    end = max(bar[2] for bar in (*compute, *buckets))
    return [
        *(Span(rank, _COMPUTE, *bar) for bar in compute),
        *(Span(rank, _IDLE, *bar) for bar in waits),
        Span(rank, "optimizer state", "optimizer", end, end + 0.125),
        *(Span(rank, _COMMUNICATION, *bar, lane=_COMMUNICATION) for bar in buckets),
    ]


def _passes(*ends: float) -> _Bars:
    """The forward pass until the first of these times, then layers backward, each until the next one."""
    count = len(ends) - 1
    layers = [(f"backward {count - 1 - i}", *times) for i, times in enumerate(pairwise(ends))]
    return [("forward", 0.0, ends[0]), *layers]


def _buckets(*times: tuple[float, float]) -> _Bars:
    return [(f"bucket {i}", *each) for i, each in enumerate(times)]


def _wait(*times: tuple[float, float]) -> _Bars:
    return [("wait", *each) for each in times]


def _later(trace: Iterable[Span], seconds: float, steps: int = 0) -> list[Span]:
    def moved(span: Span) -> Span:
        start, end = float(span.start + seconds), float(span.end + seconds)
        return replace(span, start=start, end=end, step=span.step + steps)

    return [moved(span) for span in trace]


# In this one and in _FAST nobody has recorded the wait.
_AFTERWARDS = _step(_passes(1, 3), _buckets((3, 3.75)), [])
_TWO_BUCKETS = _step(_passes(1, 2, 3), _buckets((2, 2.625), (3, 3.5)), _wait((3, 3.5)))
_QUEUE = _step(_passes(1, 2, 3, 4), _buckets((2, 3.5), (3.5, 5), (5, 6.25)), _wait((4, 6.25)))
_AT_ONCE = _step(_passes(1, 2, 3, 4), _buckets((2, 3.5), (3, 4.25), (4, 4.5)), _wait((4, 4.5)))
_IN_HOOK = _step(
    _passes(1, 2, 4, 5), _buckets((2, 3.25), (4, 4.375), (5, 5.5)), _wait((2.5, 3.25), (5, 5.5))
)
# Nor here: neither within the backward pass, nor between two buckets after it, where nothing is under way.
_UNRECORDED = _step(
    [("forward", 0.0, 1), ("backward 1", 1, 2), ("backward 0", 2.75, 4)],
    _buckets((2, 3.25), (4, 4.5), (5, 5.5)), [],
)  # fmt: skip
_FAST = _step(_passes(0.75, 1.75, 2.75), _buckets((1.75, 3), (3, 4.5)), [], rank=1)
_LATE = _step(_passes(1, 2.5, 4), _buckets((2.5, 3), (4, 4.5)), _wait((4, 4.5)), rank=0)
_NESTED = _step(
    [
        ("forward", 0.5, 1),
        ("backward 1", 1, 3), ("backward 1.mlp", 1, 2.25), ("backward 1.attention", 2.25, 3),
        ("backward 0", 3, 5), ("backward 0.mlp", 3, 4.25), ("backward 0.attention", 4.25, 5),
    ],
    _buckets((2.25, 2.875), (5, 5.25)),
    [("the next batch", 0, 0.5), *_wait((5, 5.25))],
)  # fmt: skip
# Three ranks, whose buckets end together, since an all-reduce does; two of the buckets are sent at once.
_TOGETHER = [
    *_step(_passes(0.75, 1.75, 3, 4.5), _buckets((1.75, 2.75), (3, 4.75), (3.75, 5.5), (4.5, 6)),
           _wait((4.5, 6)), rank=0),
    *_step(_passes(1.25, 2.5, 3.75, 5.25), _buckets((2.5, 2.75), (3.75, 4.75), (4.75, 5.5), (5.25, 6)),
           _wait((5.25, 6)), rank=1),
    *_step(_passes(1, 2, 3.5, 5), _buckets((2, 2.75), (3.5, 4.75), (4.5, 5.5), (5, 6)),
           [("the next batch", -0.25, 0), *_wait((4, 4.25), (5, 6))], rank=2),
]  # fmt: skip

_SECRET = "three ranks, two steps, all of it together: rank 2"
# title: spans, the rank that is asked about
_SITUATIONS: dict[str, tuple[list[Span], int]] = {
    "one bucket, after the backward pass": (_AFTERWARDS, 0),
    "two buckets, the first one within the backward pass": (_TWO_BUCKETS, 0),
    "three buckets, each waits for the one before": (_QUEUE, 0),
    "two steps": ([*_TWO_BUCKETS, *_later(_QUEUE, 4, steps=1)], 0),
    "two ranks, the other one is late: rank 1": ([*_LATE, *_FAST], 1),
    "two buckets under way at the same time": (_AT_ONCE, 0),
    "a hook waits inside the backward pass": (_IN_HOOK, 0),
    "spans of blocks, and of the layers in them": (_NESTED, 0),
    "waits that nobody has recorded": (_UNRECORDED, 0),
    "two ranks, the other one is early: rank 0": ([*_LATE, *_FAST], 0),
    _SECRET: ([*_TOGETHER, *_later(_TOGETHER, 8, steps=1)], 2),
}


def _draw(_: int) -> list[Case]:
    return [_case(title, *situation) for title, situation in _SITUATIONS.items()]


def _case(title: str, trace: list[Span], rank: int) -> Case:
    """The spans as ``timeline.read_trace`` gives them: from 0 s on, and in order of start."""
    begin = min(span.start for span in trace)
    ordered = sorted(
        _later(trace, -begin), key=lambda span: (span.start, -span.end, span.rank, LANES.index(span.lane))
    )
    arguments = tuple(map(astuple, ordered)), rank
    return Case.alone(title, arguments, _swept()(*arguments), title == _SECRET)


# --- Right, and what mistakes look like ---

_Pair = tuple[float, float]  # hidden and exposed seconds
_Chosen = Callable[[list[Span], int], list[Span]]


def _of_rank(trace: list[Span], rank: int) -> list[Span]:
    return [span for span in trace if span.rank == rank]


def _works(going_on: Collection[Span]) -> bool:
    kinds = {span.kind for span in going_on}
    return _COMPUTE in kinds and _IDLE not in kinds


def _once(buckets: int, layers: int) -> int:
    return 1


def _swept(
    chosen: _Chosen = _of_rank,
    works: Callable[[Collection[Span]], bool] = _works,
    weight: Callable[[int, int], int] = _once,
) -> Callable[..., _Pair]:
    """From one start or end of a span to the next: what goes on does not change between them.

    ``weight``: how many times the seconds count, from how many spans are under way, and computed.
    """

    def compute(rows: Sequence[tuple], rank: int) -> _Pair:
        own = chosen(spans(rows), rank)
        hidden = exposed = 0.0
        for start, end in pairwise(sorted({time for span in own for time in (span.start, span.end)})):
            going_on = [span for span in own if span.start <= start and end <= span.end]
            under_way = _count(going_on, _COMMUNICATION)
            seconds = (end - start) * weight(under_way, _count(going_on, _COMPUTE)) if under_way else 0.0
            hidden += seconds if works(going_on) else 0.0
            exposed += 0.0 if works(going_on) else seconds
        return hidden, exposed

    return compute


def _count(going_on: Iterable[Span], kind: str) -> int:
    return sum(span.kind == kind for span in going_on)


def _changed(change: Callable[[float, float, list[Span]], _Pair], **swept) -> Callable[..., _Pair]:
    """The answer from hidden and exposed seconds, and from the rank's spans."""
    return lambda rows, rank: change(*_swept(**swept)(rows, rank), _of_rank(spans(rows), rank))


def _sum(own: Iterable[Span], *kinds: str) -> float:
    return sum(span.seconds for span in own if span.kind in kinds)


def _backward(own: Iterable[Span]) -> float:
    return sum(span.seconds for span in own if span.label.startswith("backward"))


def _difference(communication: float, computing: float) -> _Pair:
    """As if all that can hide did."""
    return min(communication, computing), max(0.0, communication - computing)


def _step_of_rank(take: Callable[[Iterable[int]], int]) -> _Chosen:
    def chosen(trace: list[Span], rank: int) -> list[Span]:
        own = _of_rank(trace, rank)
        return [span for span in own if span.step == take(each.step for each in own)]

    return chosen


def _last_buckets(own: list[Span]) -> list[Span]:
    """The last one of each step."""
    steps = sorted({span.step for span in own})
    return [
        max((span for span in own if span.kind == _COMMUNICATION and span.step == step),
            key=lambda span: span.end) for step in steps
    ]  # fmt: skip


def _after_backward(own: list[Span]) -> float:
    """From the end of the last layer to that of the last bucket, in each step."""
    seconds = 0.0
    for step in {span.step for span in own}:
        ends = {kind: max((span.end for span in own if (span.step, span.kind) == (step, kind)), default=0.0)
                for kind in (_COMPUTE, _COMMUNICATION)}  # fmt: skip
        seconds += max(0.0, ends[_COMMUNICATION] - ends[_COMPUTE])
    return seconds


def _all_but_after_backward(hidden: float, exposed: float, own: list[Span]) -> _Pair:
    after = _after_backward(own)
    return hidden + exposed - after, after


def _last_hidden(hidden: float, exposed: float, own: list[Span]) -> _Pair:
    last = _sum(_last_buckets(own), _COMMUNICATION)
    return hidden + last, exposed - last


def _only_last_exposed(hidden: float, exposed: float, own: list[Span]) -> _Pair:
    last = _sum(_last_buckets(own), _COMMUNICATION)
    return hidden + exposed - last, last


def _no_pair(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two numbers are expected: the hidden and the exposed seconds."
    return None


def _one_right(place: int, sentence: str) -> Callable[[Compared], str | None]:
    def recognize(wrong: Compared) -> str | None:
        value, expected = wrong.played[0].value, wrong.case.expected[0]
        return sentence if value[place] == expected[place] else None

    return recognize


HIDDEN_AND_EXPOSED = Part(
    "hidden_and_exposed(spans, rank)",
    _draw,
    (
        mistakes.nothing_returned,
        _no_pair,
        mistakes.not_a_number,
        *as_if(
            "Seconds count twice where two spans go on at the same time. Two buckets that are under way at "
            "once take no more of the step than one, and neither do a block and the layer in it.",
            _swept(weight=lambda buckets, layers: buckets),
            _swept(weight=lambda buckets, layers: max(1, layers)),
            _swept(weight=lambda buckets, layers: buckets * max(1, layers)),
            _changed(lambda hidden, exposed, own: (hidden, _sum(own, _COMMUNICATION) - hidden)),
            _changed(lambda hidden, exposed, own: (hidden, _sum(own, _COMMUNICATION) - hidden),
                     weight=lambda buckets, layers: buckets * max(1, layers)),
            _changed(lambda hidden, exposed, own: (_sum(own, _COMMUNICATION) - exposed, exposed)),
        ),
        *as_if(
            "This is communication minus computing, as if all of the backward pass could hide something. "
            "Before the first bucket is full nothing is under way, and the last bucket comes when nothing is "
            "left to compute: it counts **when** each of them goes on.",
            _changed(lambda hidden, exposed, own: _difference(hidden + exposed, _backward(own))),
            _changed(lambda hidden, exposed, own: _difference(_sum(own, _COMMUNICATION), _backward(own))),
            _changed(lambda hidden, exposed, own: _difference(hidden + exposed, _sum(own, _COMPUTE))),
            _changed(lambda hidden, exposed, own: (
                hidden, max(0.0, _sum(own, _COMMUNICATION) - _backward(own)))),
            _changed(lambda hidden, exposed, own: (
                hidden, max(0.0, _sum(own, _COMMUNICATION) - _sum(own, _COMPUTE)))),
        ),
        *as_if(
            "A layer in which a hook waits does not compute for so long: a span of kind `idle` lies within "
            "that of the layer, and what is under way then is exposed.",
            _swept(works=lambda going_on: _count(going_on, _COMPUTE) > 0),
        ),
        *as_if(
            "What stands in the lane `compute` is taken for computing, and waits stand there as well: look "
            "at the **kind** of a span.",
            _swept(works=lambda going_on: any(span.lane == _COMPUTE for span in going_on)),
        ),
        *as_if(
            "Only what a span of kind `idle` covers is called exposed, and not every wait has been recorded: "
            "where nothing is computed, nothing is hidden.",
            _swept(works=lambda going_on: not _count(going_on, _IDLE)),
        ),
        *as_if(
            "What is exposed is counted from the end of the backward pass to the end of the last bucket. A "
            "rank may stand still before that, too, and after it nothing may be under way for a while.",
            _changed(lambda hidden, exposed, own: (hidden, _after_backward(own))),
            _changed(_all_but_after_backward),
        ),
        *as_if(
            "The last bucket is called hidden. When its gradients are complete, nothing is left to compute.",
            _changed(_last_hidden),
            _changed(lambda hidden, exposed, own: (hidden, _last_hidden(hidden, exposed, own)[1])),
            _changed(lambda hidden, exposed, own: (hidden + exposed, 0.0)),
        ),
        *as_if(
            "Only the last bucket is counted as exposed. One before it may still be under way when the "
            "backward pass ends, and the last one has to wait for it.",
            _changed(_only_last_exposed),
            _changed(lambda hidden, exposed, own: (hidden, _only_last_exposed(hidden, exposed, own)[1])),
        ),
        *as_if(
            "All communication is called exposed. What goes on while the rank computes costs it no time.",
            _changed(lambda hidden, exposed, own: (0.0, hidden + exposed)),
            _changed(lambda hidden, exposed, own: (0.0, _sum(own, _COMMUNICATION))),
            _changed(lambda hidden, exposed, own: (hidden, hidden + exposed)),
        ),
        *as_if(
            "Spans of other ranks are counted, too. Only what this rank computes hides what it sends.",
            _swept(lambda trace, rank: trace),
            _swept(lambda trace, rank: [span for span in trace if span.rank >= rank]),
            _swept(lambda trace, rank: [span for span in trace if span.rank <= rank]),
        ),
        *as_if(
            "Only one of the steps is counted: the sums over all of them are asked for.",
            _swept(_step_of_rank(min)),
            _swept(_step_of_rank(max)),
            _changed(lambda hidden, exposed, own: (
                hidden, max(0.0, max(span.end for span in own if span.kind == _COMMUNICATION)
                            - max(span.end for span in own if span.kind == _COMPUTE)))),
        ),
        *as_if(
            "All waits are called exposed communication. Where nothing is under way, the rank waits for "
            "something else, such as its data.",
            _changed(lambda hidden, exposed, own: (hidden, _sum(own, _IDLE))),
            _changed(lambda hidden, exposed, own: (hidden, _sum(own, _IDLE, "optimizer state"))),
        ),
        *as_if(
            "The two are swapped: the hidden seconds come first.",
            _changed(lambda hidden, exposed, own: (exposed, hidden)),
        ),
        *as_if(
            "These are milliseconds: seconds are asked for.",
            _changed(lambda hidden, exposed, own: (1000 * hidden, 1000 * exposed)),
        ),
        _one_right(
            0, "The hidden seconds are right, and the exposed ones are not: while gradients are under way, "
            "the rank computes or it does not.",
        ),
        _one_right(
            1, "The exposed seconds are right, and the hidden ones are not: while gradients are under way, "
            "the rank computes or it does not.",
        ),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)  # fmt: skip
