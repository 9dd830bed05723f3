"""Part 4: latency and bandwidth from measured times of the ring."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose, log2

from course_lib.checks import draws, mistakes
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part, Recognizer
from course_lib.cost_model import all_reduce_seconds

NOISE = 0.01  # how far a point may be off
TOLERANCE = 0.04
# ranks, latency in s, bandwidth in bytes/s, whether sizes are in order, noise
_SECRET = (16, 2.1e-5, 11.3e9, True, NOISE)
_SITUATIONS = (
    (4, 2e-3, 50e6, True, 0.0),
    (8, 5.3e-6, 46e9, True, NOISE),
    (3, 3.1e-4, 121e6, False, NOISE),
    (64, 7.7e-6, 24.1e9, True, NOISE),
    (2, 4.6e-5, 1.18e9, False, NOISE),
    _SECRET,
)


def _draw(ranks: int) -> list[Case]:
    return [_case(situation) for situation in _SITUATIONS]


def _case(situation: tuple[int, float, float, bool, float]) -> Case:
    """Eight sizes, from those in which the latency counts most to those in which the bytes do."""
    ranks, latency, bandwidth, in_order, noise = situation
    draw = draws.random(f"fit {ranks}")
    middle = round(log2(latency * bandwidth * ranks))
    sizes = [4 * round(2.0**power / 4 * draw.uniform(0.9, 1.1)) for power in range(middle - 4, middle + 4)]
    if not in_order:
        draw.shuffle(sizes)
    times = [
        float(f"{all_reduce_seconds('ring', size, ranks, latency, bandwidth) * factor:.5g}")
        for size in sizes
        for factor in [draw.uniform(1 - noise, 1 + noise)]
    ]
    title = f"{ranks} ranks, {min(sizes):,} to {max(sizes):,} bytes" + ("" if in_order else ", in no order")
    arguments = (ranks, tuple(sizes), tuple(times))
    return Case.alone(title, arguments, (latency, bandwidth), situation == _SECRET)


# --- What mistakes look like ---

_CLOSE = 0.06
# Of what is asked for, the unit is so much; the nearest one is meant, since MB and MiB are close.
_BANDWIDTHS = {8: "bit/s", 8e-6: "Mbit/s", 8e-9: "Gbit/s", 1e-3: "kB/s", 1e-6: "MB/s", 2**-20: "MiB/s",
               1e-9: "GB/s", 2**-30: "GiB/s"}  # fmt: skip
_LATENCIES = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}


def _looks_like(says: Callable[[int, float, float], bool], sentence: str) -> Recognizer:
    """A sentence for results whose latency and bandwidth are these times too large, given N."""
    return lambda wrong: sentence if says(wrong.case.arguments[0][0], *_factors(wrong)) else None


def _factors(wrong: Compared) -> tuple[float, float]:
    """How many times too large latency and bandwidth are."""
    latency, bandwidth = wrong.played[0].value
    right_latency, right_bandwidth = wrong.case.expected[0]
    return latency / right_latency, bandwidth / right_bandwidth


def _near(value: float, *factors: float) -> bool:
    """Whether a factor is one of these, and not 1."""
    return not isclose(value, 1, rel_tol=_CLOSE) and any(isclose(value, f, rel_tol=_CLOSE) for f in factors)


def _other_units(wrong: Compared) -> str | None:
    latency, bandwidth = _factors(wrong)
    unit = min(_BANDWIDTHS, key=lambda unit: abs(bandwidth / unit - 1))
    if _near(bandwidth, unit):
        return f"The bandwidth is in {_BANDWIDTHS[unit]}, and bytes/s are asked for."
    name = next((name for unit, name in _LATENCIES.items() if _near(latency, unit)), None)
    return f"The latency is in {name}, and seconds are asked for." if name else None


def _no_pair(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two numbers are expected: the latency in seconds, and the bandwidth in bytes/s."
    return None


def _swapped(wrong: Compared) -> str | None:
    latency, bandwidth = wrong.played[0].value
    if latency > 1 > bandwidth:
        return "The two are swapped: the latency comes first, then the bandwidth."
    return None


def _inverse(wrong: Compared) -> str | None:
    if 0 < wrong.played[0].value[1] < 1e-3:
        return "This bandwidth is the slope of a line, seconds per byte: bytes per second are its inverse."
    return None


def _two_points(wrong: Compared) -> str | None:
    """The line through the first two or the last two, as given or in order."""
    ranks, sizes, times = wrong.case.arguments[0]
    messages, got = 2 * (ranks - 1), wrong.played[0].value
    for points in (list(zip(sizes, times, strict=True)), sorted(zip(sizes, times, strict=True))):
        for (size, time), (next_size, next_time) in (points[:2], points[-2:]):
            slope = (next_time - time) / (next_size - size) / messages * ranks
            line = ((time - slope * size * messages / ranks) / messages, 1 / slope)
            if all(isclose(*pair, rel_tol=1e-6) for pair in zip(got, line, strict=True)):
                return (
                    "This is the line through two of the points, and each point is a little off: let all of "
                    "them decide."
                )
    return None


def _off_by_the_tensors(ranks: int, latency: float, bandwidth: float) -> bool:
    tensors = 2 * (ranks - 1) / ranks
    return _near(bandwidth, 1 / tensors, 1 / tensors**2, tensors)


FIT_RING = Part(
    f"fit_ring(ranks, sizes, seconds), to {TOLERANCE:.0%}",
    _draw,
    (
        mistakes.nothing_returned,
        _no_pair,
        mistakes.not_a_number,
        _swapped,
        _inverse,
        _two_points,
        _looks_like(
            lambda n, latency, bandwidth: latency == 0,
            "The line goes through the origin, as if a message without bytes took no time: the latency is "
            "spread over the bytes. Let the line have a height of its own.",
        ),
        _other_units,
        _looks_like(
            _off_by_the_tensors,
            "The bandwidth is off by the factor 2(N-1)/N: that many tensors, not one, go through a link in "
            "the measured time.",
        ),
        _looks_like(
            lambda n, latency, bandwidth: _near(bandwidth, n),
            "The bandwidth is N times too large: a message of the ring carries S/N bytes.",
        ),
        _looks_like(
            lambda n, latency, bandwidth: _near(latency, 2 * (n - 1)),
            "The latency is that of a whole all-reduce, and that of a single message is asked for: how many "
            "wait for each other?",
        ),
        _looks_like(
            lambda n, latency, bandwidth: _near(latency, 2, 2 * (n - 1) / n, (n - 1), (n - 1) / n),
            "The latency is off by a factor, since the messages are miscounted: each of the ring's halves "
            "takes N - 1.",
        ),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
