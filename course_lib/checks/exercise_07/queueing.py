"""Part 2: when each bucket starts and ends, and what of it the step has to wait for.

The overlap model: bucket i starts when its gradients are complete and bucket i - 1 has ended.  All times are
multiples of 1/16 s, so that sums of them are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from course_lib.checks import mistakes
from course_lib.checks.given import as_it_is, lists
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part

ARGUMENTS = (lists, list, list, as_it_is)

Times = tuple[tuple[float, float], ...]  # start and end of each bucket
Start = Callable[[float, float, float], float]  # from ready, the end before, and the last ready of all
Exposed = Callable[[Times, Sequence[float], float], float]  # of times, seconds, end of the backward pass

_PAIRS = ((5, 4), (3, 2), (1, 0))
_SECRET = "four buckets of several sizes"
# title: buckets, ready, seconds, end of the backward pass
_SITUATIONS: dict[str, tuple] = {
    "one bucket": (((2, 1, 0),), (3.0, 2.0, 1.5), (1.25,), 3.0),
    "a fast network": (_PAIRS, (6.0, 5.0, 4.0, 3.0, 2.0, 1.0), (0.75, 1.0, 0.5), 6.0),
    "a slow network": (_PAIRS, (3.5, 3.0, 2.5, 2.0, 1.5, 1.0), (2.0, 1.75, 1.5), 3.5),
    "a fast device": (_PAIRS, (1.5, 1.25, 1.0, 0.75, 0.5, 0.25), (0.375, 0.5, 0.25), 1.5),
    "a large bucket in the middle": (
        ((4,), (3, 2, 1), (0,)), (5.0, 3.5, 3.0, 2.0, 1.0), (0.5, 2.25, 0.25), 5.0),
    "parameter 5 is used in two layers": (_PAIRS, (4.0, 3.5, 3.0, 2.5, 2.0, 4.0), (0.5, 0.5, 0.25), 4.0),
    "bucket 1 is complete before bucket 0": (
        _PAIRS, (5.0, 4.5, 1.0, 1.5, 3.0, 3.5), (0.75, 1.0, 0.5), 5.0),
    "the backward pass goes on to the inputs": (
        ((3, 2), (1, 0)), (3.0, 2.5, 2.0, 1.5), (0.5, 0.5), 4.25),
    _SECRET: (
        ((8, 7), (6,), (5, 4, 3, 2), (1, 0)), (5.5, 5.25, 4.75, 4.0, 3.0, 2.75, 2.0, 0.5, 1.5),
        (0.75, 1.5, 1.25, 0.625), 5.5),
}  # fmt: skip


def _draw(_: int) -> list[Case]:
    return [
        Case.alone(title, arguments, _when()(*arguments), title == _SECRET)
        for title, arguments in _SITUATIONS.items()
    ]


# --- Right ---


def when_both(ready: float, free: float, last: float) -> float:
    return max(ready, free)


def queued(ready: Sequence[float], seconds: Sequence[float], start: Start = when_both) -> Times:
    """Start and end of each bucket, from when its gradients are complete and how long it takes."""
    times, free = [], 0.0
    for complete, duration in zip(ready, seconds, strict=True):
        begin = start(complete, free, max(ready))
        free = begin + duration
        times.append((begin, free))
    return tuple(times)


def exposed(times: Times, seconds: Sequence[float], backward_end: float) -> float:
    """Seconds from the end of the backward pass until the last bucket has ended."""
    return max(0.0, times[-1][1] - backward_end)


# --- What mistakes look like ---


def when_ready(ready: float, free: float, last: float) -> float:
    return ready


def after_all_gradients(ready: float, free: float, last: float) -> float:
    return max(last, free)


def as_soon_as_free(ready: float, free: float, last: float) -> float:
    return free or ready


def with_the_last_hidden(times: Times, seconds: Sequence[float], backward_end: float) -> float:
    return exposed(times[:-1], seconds[:-1], backward_end) if times[1:] else 0.0


def the_last_alone(times: Times, seconds: Sequence[float], backward_end: float) -> float:
    return seconds[-1]


def all_communication(times: Times, seconds: Sequence[float], backward_end: float) -> float:
    return sum(seconds)


def communication_minus_backward(times: Times, seconds: Sequence[float], backward_end: float) -> float:
    return max(0.0, sum(seconds) - backward_end)


def less_than_nothing(times: Times, seconds: Sequence[float], backward_end: float) -> float:
    """Negative where the last bucket has ended before the backward pass."""
    return times[-1][1] - backward_end


def _when(
    complete: Callable[[list[float]], float] = max, start: Start = when_both, waited: Exposed = exposed
) -> Callable[..., tuple[Times, float]]:
    """The answer if some of it is found in another way."""

    def compute(
        buckets: Sequence[Sequence[int]], ready: Sequence[float], seconds: Sequence[float], end: float
    ) -> tuple[Times, float]:
        times = queued([complete([ready[i] for i in bucket]) for bucket in buckets], seconds, start)
        return times, waited(times, seconds, end)

    return compute


def _first(ready: list[float]) -> float:
    return ready[0]


def _last(ready: list[float]) -> float:
    return ready[-1]


def _in_order_of_readiness(
    buckets: Sequence[Sequence[int]], ready: Sequence[float], seconds: Sequence[float], end: float
) -> tuple[Times, float]:
    complete = [max(ready[i] for i in bucket) for bucket in buckets]
    order = sorted(range(len(buckets)), key=complete.__getitem__)
    times = queued([complete[i] for i in order], [seconds[i] for i in order])
    placed = dict(zip(order, times, strict=True))
    return tuple(placed[i] for i in range(len(buckets))), exposed(times, seconds, end)


def _sum_of_ends(times: Times, seconds: Sequence[float], end: float) -> float:
    return sum(max(0.0, each - end) for _, each in times)


def _hidden(times: Times, seconds: Sequence[float], end: float) -> float:
    return sum(max(0.0, min(each, end) - start) for start, each in times)


_FORM = (
    "Two things are expected: a list with a pair (start, end) for each bucket, and the exposed seconds, a "
    "number."
)


def _other_form(wrong: Compared) -> str | None:
    value, (times, _) = wrong.played[0].value, wrong.case.expected[0]
    if not isinstance(value, tuple) or len(value) != 2 or not _are_pairs(value[0]):
        return _FORM
    if len(value[0]) != len(times):
        return "There is one pair (start, end) for each bucket, and here are more or fewer of them."
    return None if type(value[1]) in (int, float) else _FORM


def _are_pairs(times: object) -> bool:
    return isinstance(times, tuple) and all(
        isinstance(pair, tuple) and [type(time) in (int, float) for time in pair] == [True, True]
        for pair in times
    )


def _right_times(wrong: Compared) -> str | None:
    if wrong.played[0].value[0] == wrong.case.expected[0][0]:
        return (
            "All starts and ends are right, and the exposed seconds are not: how long after the end of the "
            "backward pass is the last bucket done?"
        )
    return None


def _right_starts(wrong: Compared) -> str | None:
    got, times = wrong.played[0].value[0], wrong.case.expected[0][0]
    if [start for start, _ in got] == [start for start, _ in times]:
        return "The starts are right, and the ends are not: an end, or how long each bucket takes?"
    return None


def _overtakes(pairs: Iterable[tuple[float, float]]) -> bool:
    ends = [end for _, end in pairs]
    return ends != sorted(ends)


def _in_another_order(wrong: Compared) -> str | None:
    return _READINESS if _overtakes(wrong.played[0].value[0]) else None


_READINESS = (
    "A bucket overtakes another one here. Which of two buckets is complete first may differ from rank to "
    "rank, and an all-reduce needs all of them at the same bucket: they go in their order, always."
)

BUCKET_TIMES = Part(
    "bucket_times(buckets, ready, seconds, backward_end)",
    _draw,
    (
        mistakes.nothing_returned,
        _other_form,
        *as_if(
            "A bucket starts here while the one before it is still under way. There is one network, and it "
            "is busy: they go one after the other.",
            _when(start=when_ready),
        ),
        *as_if(
            "All buckets wait here for the last gradient of all. A bucket needs its own gradients only: that "
            "is what buckets are for.",
            _when(start=after_all_gradients),
        ),
        *as_if(
            "A bucket starts here as soon as the network is free, whether or not its gradients are there.",
            _when(start=as_soon_as_free),
            _when(start=lambda ready, free, last: free),
        ),
        *as_if(
            "A bucket leaves here with its first gradient. It is complete when the last one of its gradients "
            "is.",
            _when(min),
            _when(_first),
        ),
        *as_if(
            "The gradient that comes last is not always that of the last parameter in the bucket: a weight "
            "that several layers use is complete only when all of them have added to it.",
            _when(_last),
        ),
        *as_if(_READINESS, _in_order_of_readiness),
        *as_if(
            "The last bucket is called hidden. It is complete when the backward pass ends, so nothing is "
            "left to hide it.",
            _when(waited=with_the_last_hidden),
        ),
        *as_if(
            "Only the last bucket's own seconds are counted as exposed. Where the network is slow, it starts "
            "late, since others are under way when the backward pass ends.",
            _when(waited=the_last_alone),
        ),
        *as_if(
            "This is communication minus computing, as if all of the backward pass could hide something: it "
            "counts when the last bucket ends.",
            _when(waited=communication_minus_backward),
            _when(waited=lambda times, seconds, end: sum(seconds) - end),
        ),
        *as_if(
            "All of the communication is called exposed. What goes on before the end of the backward pass "
            "costs no time.",
            _when(waited=all_communication),
        ),
        *as_if(
            "What is exposed is counted for each bucket from the end of the backward pass, and these times "
            "overlap: the step waits once, until the last one is done.",
            _when(waited=_sum_of_ends),
        ),
        *as_if(
            "Less than nothing is exposed. Where the backward pass ends after the last bucket, the step "
            "waits for no bucket: 0.",
            _when(waited=less_than_nothing),
        ),
        *as_if(
            "These are the hidden seconds: those after the end of the backward pass are asked for.",
            _when(waited=_hidden),
        ),
        *as_if(
            "This is when the last bucket ends. How long after the end of the backward pass is that?",
            _when(waited=lambda times, seconds, end: times[-1][1]),
        ),
        _right_times,
        _right_starts,
        _in_another_order,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
