"""Part 5: the fastest algorithm for a cluster and a size."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose

from course_lib.checks import mistakes
from course_lib.checks.exercise_04.predicting import ALGORITHMS, ROUNDING
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.tolerance import near, rounded
from course_lib.cost_model import all_reduce_seconds, terms

# ranks, latency in µs, link in Gbit/s
CLUSTERS = {"office": (3, 300, 1), "server": (8, 4, 3600), "datacenter": (1536, 12, 400)}
_SECRET_CLUSTER = (96, 20, 100)
_SITUATIONS = (
    ("office", 0.0625),
    ("office", 25),
    ("server", 0.25),
    ("server", 25),
    ("datacenter", 0.0625),
    ("datacenter", 25),
    ("datacenter", 12_852),
)

_Choice = tuple[str, float, float]


def _draw(ranks: int) -> list[Case]:
    named = [(name, size, *CLUSTERS[name], False) for name, size in _SITUATIONS]
    return [_case(*situation) for situation in (*named, ("a fourth cluster", 475, *_SECRET_CLUSTER, True))]


def _case(
    name: str, mebibytes: float, ranks: int, microseconds: float, gigabits: float, secret: bool
) -> Case:
    title = f"{name}: {ranks:,} ranks, {mebibytes:,g} MiB, {microseconds} µs, {gigabits:,} Gbit/s"
    arguments = (ranks, mebibytes, microseconds, gigabits)
    return Case.alone(title, arguments, choice(*arguments), secret)


def choice(ranks: int, mebibytes: float, microseconds: float, gigabits: float) -> _Choice:
    """The fastest algorithm, its seconds, and those of the next best."""
    return _first(_times(ranks, mebibytes, microseconds, gigabits))


def _times(
    ranks: int, mebibytes: float, microseconds: float, gigabits: float, /,
    size_unit: float = 2**20, latency_unit: float = 1e-6, bandwidth_unit: float = 1e9 / 8,
) -> dict[str, float]:
    """Seconds of each algorithm."""
    size, latency, bandwidth = mebibytes * size_unit, microseconds * latency_unit, gigabits * bandwidth_unit
    return {name: all_reduce_seconds(name, round(size), ranks, latency, bandwidth) for name in ALGORITHMS}


def _first(times: dict[str, float]) -> _Choice:
    best, second = sorted(times, key=times.__getitem__)[:2]
    return best, times[best], times[second]


# --- What mistakes look like ---


def _when(**units: float) -> Callable:
    """The answer when something of the data sheet is taken for other units, or for nothing."""
    return lambda *arguments: _first(_times(*arguments, **units))


def _by(measure: Callable[[str, int], float]) -> Callable:
    """The answer when algorithms are compared by something else than their seconds."""

    def compute(ranks: int, *sheet: float) -> _Choice:
        seconds = _times(ranks, *sheet)
        best, second = sorted(ALGORITHMS, key=lambda name: measure(name, ranks))[:2]
        return best, seconds[best], seconds[second]

    return compute


def _slowest(ranks: int, *sheet: float) -> _Choice:
    seconds = _times(ranks, *sheet)
    worst, second = sorted(seconds, key=seconds.__getitem__, reverse=True)[:2]
    return worst, seconds[worst], seconds[second]


def _no_choice(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 3 or value[0] not in ALGORITHMS:
        return (
            f"Three values are expected: one of {', '.join(map(repr, ALGORITHMS))}; its seconds; and the "
            "seconds of the next best."
        )
    return None


def _another_choice(wrong: Compared) -> str | None:
    """The right seconds, of an algorithm that takes longer."""
    name, seconds, _ = wrong.played[0].value
    expected = wrong.case.expected[0]
    if name != expected[0] and isclose(seconds, _times(*wrong.case.arguments[0])[name], rel_tol=ROUNDING):
        return "The algorithm that is named takes that long, but another one takes less: compute all five."
    return None


def _another_next(wrong: Compared) -> str | None:
    if near(wrong.played[0].value[:-1], wrong.case.expected[0][:-1], ROUNDING):
        return "The first two values are right. The last one is the time of the next best algorithm."
    return None


def _other_seconds(wrong: Compared) -> str | None:
    if wrong.played[0].value[0] == wrong.case.expected[0][0]:
        return "The right algorithm, with other seconds: check the three units, and your answer to part 3."
    return None


CHOOSE = Part(
    "choose(ranks, mebibytes, microseconds, gigabits)",
    _draw,
    (
        mistakes.nothing_returned,
        _no_choice,
        mistakes.not_a_number,
        *as_if(
            "Only the bytes' time is compared. With many ranks or few bytes the latencies decide: both terms "
            "count.",
            _by(lambda name, ranks: terms(name, ranks).tensors),
            _when(latency_unit=0),
        ),
        *as_if(
            "Only the latencies are compared. With many bytes their time decides: both terms count.",
            _by(lambda name, ranks: terms(name, ranks).messages),
            _when(size_unit=0),
        ),
        *as_if(
            "Gbit/s are taken for GB/s: links are sold in bits, and a byte has 8 of them.",
            _when(bandwidth_unit=1e9),
        ),
        *as_if("Gbit/s are powers of ten: 1 Gbit/s = 10^9 bit/s.", _when(bandwidth_unit=2**30 / 8)),
        *as_if("MiB are taken for MB: 1 MiB = 2^20 = 1,048,576 bytes.", _when(size_unit=1e6)),
        *as_if("The latency is given in µs, and milliseconds are taken.", _when(latency_unit=1e-3)),
        *as_if("The latency is given in µs, and seconds are taken.", _when(latency_unit=1)),
        *as_if("This is the slowest of them.", _slowest),
        rounded,
        _another_choice,
        _another_next,
        _other_seconds,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
