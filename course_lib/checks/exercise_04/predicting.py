"""Part 3: the seconds of an all-reduce by the latency-bandwidth model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, log, log2
from typing import NamedTuple

from course_lib.checks import mistakes
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Part
from course_lib.checks.tolerance import rounded

ALGORITHMS = ("star", "unchunked-ring", "ring", "recursive-doubling", "halving-doubling")
ROUNDING = 1e-9  # floats may be multiplied in any order
# algorithm, ranks, bytes of the tensor, latency in s, bandwidth in bytes/s
_SECRET = ("halving-doubling", 48, 77_000_000, 7e-6, 20e9)
_SITUATIONS = (
    ("star", 4, 8_388_608, 1e-3, 50e6),
    ("star", 16, 65_536, 2e-5, 1.25e9),
    ("unchunked-ring", 5, 10_000_000, 1e-4, 125e6),
    ("ring", 4, 8_388_608, 1e-3, 50e6),
    ("ring", 8, 26_214_400, 5e-6, 450e9),
    ("ring", 6, 40_000, 5e-5, 125e6),
    ("ring", 1, 1_000_000, 1e-3, 50e6),
    ("recursive-doubling", 16, 65_536, 2e-5, 1.25e9),
    ("recursive-doubling", 12, 4096, 5e-6, 50e9),
    ("halving-doubling", 64, 26_214_400, 1e-5, 12.5e9),
    ("halving-doubling", 6, 1_000_000, 5e-5, 125e6),
    _SECRET,
)


class Terms(NamedTuple):
    """seconds = messages · latency + tensors · bytes / bandwidth"""

    messages: float
    tensors: float


def _rounded_down(ranks: int) -> int:
    """The logarithm to base 2."""
    return ranks.bit_length() - 1


def _terms(algorithm: str, ranks: int) -> Terms:
    rounds = _rounded_down(ranks)
    folding = 0 if ranks == 2**rounds else 2
    return {
        "star": Terms(2 * (ranks - 1), 2 * (ranks - 1)),
        "unchunked-ring": Terms(ranks - 1, ranks - 1),
        "ring": Terms(2 * (ranks - 1), 2 * (ranks - 1) / ranks),
        "recursive-doubling": Terms(rounds + folding, rounds + folding),
        "halving-doubling": Terms(2 * rounds + folding, 2 * (ranks - 1) / ranks + folding),
    }[algorithm]


def _draw(ranks: int) -> list[Case]:
    cases = []
    for situation in _SITUATIONS:
        algorithm, ranks, size, latency, bandwidth = situation
        title = (
            f"{algorithm}, {ranks} rank{'s' * (ranks > 1)}, {size:,} bytes, "
            f"{1e6 * latency:g} µs, {bandwidth / 1e6:,g} MB/s"
        )
        cases.append(Case.alone(title, situation, seconds(*situation), situation == _SECRET))
    return cases


def seconds(
    algorithm: str, ranks: int, size: int, latency: float, bandwidth: float, *, terms: Callable = _terms
) -> float:
    """What the model gives."""
    messages, tensors = terms(algorithm, ranks)
    return messages * latency + tensors * size / bandwidth


# --- What mistakes look like ---

_Mistaken = Callable[[int, Terms], Terms]  # from N and the right terms


def _when(mistaken: Mapping[str, _Mistaken]) -> Callable:
    """The seconds when the terms of some algorithms are others."""

    def terms(algorithm: str, ranks: int) -> Terms:
        right = _terms(algorithm, ranks)
        return mistaken[algorithm](ranks, right) if algorithm in mistaken else right

    return lambda *arguments: seconds(*arguments, terms=terms)


def _ring(mistaken: _Mistaken) -> Callable:
    return _when({"ring": mistaken})


def _star(mistaken: _Mistaken) -> Callable:
    return _when({"star": mistaken})


def _all(mistaken: _Mistaken) -> Callable:
    return _when(dict.fromkeys(ALGORITHMS, mistaken))


def _doubling(lg: Callable[[int], float], folding: float) -> Callable:
    """The seconds with another logarithm, or without what it takes where N is no power of two."""

    def more(ranks: int) -> float:
        return folding if ranks & (ranks - 1) else 0

    return _when({
        "recursive-doubling": lambda n, _: Terms(lg(n) + more(n), lg(n) + more(n)),
        "halving-doubling": lambda n, _: Terms(2 * lg(n) + more(n), 2 * (n - 1) / n + more(n)),
    })  # fmt: skip


def _with_bandwidth(factor: float) -> Callable:
    """The seconds when the bandwidth is taken as so many times what it is."""

    def compute(algorithm: str, ranks: int, size: int, latency: float, bandwidth: float) -> float:
        return seconds(algorithm, ranks, size, latency, factor * bandwidth)

    return compute


def _rounded_up(ranks: int) -> int:
    return ceil(log2(ranks))


_WITH_N: dict[str, _Mistaken] = {
    "star": lambda n, right: Terms(2 * n, 2 * n),
    "unchunked-ring": lambda n, right: Terms(n, n),
    "ring": lambda n, right: Terms(2 * n, 2),
}

PREDICTED_SECONDS = Part(
    "predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth)",
    _draw,
    (
        mistakes.nothing_returned,
        mistakes.not_a_number,
        *as_if(
            "The ring waits for one message after another, and each takes the latency anew: how many are "
            "there?",
            _ring(lambda n, right: Terms(1, right.tensors)),
            _ring(lambda n, right: Terms(2, right.tensors)),
            _ring(lambda n, right: Terms(n - 1, right.tensors)),
        ),
        *as_if(
            "The latency is taken once for the whole all-reduce. It is paid for each message that waits for "
            "the one before it.",
            _all(lambda n, right: Terms(1, right.tensors)),
        ),
        *as_if(
            "The latency is left out: messages · latency comes on top of the bytes' time.",
            _all(lambda n, right: Terms(0, right.tensors)),
        ),
        *as_if(
            "The bytes' time is left out: tensors · S / bandwidth comes on top of the latencies.",
            _all(lambda n, right: Terms(right.messages, 0)),
        ),
        *as_if(
            "In the ring a message is one chunk, S/N bytes, not the whole tensor.",
            _ring(lambda n, right: Terms(right.messages, n - 1)),
            _ring(lambda n, right: Terms(right.messages, 2 * (n - 1))),
        ),
        *as_if(
            "Only one half of the ring is counted: the all-gather after the reduce-scatter takes as long "
            "again.",
            _ring(lambda n, right: Terms(n - 1, (n - 1) / n)),
            _ring(lambda n, right: Terms(right.messages, (n - 1) / n)),
        ),
        *as_if(
            "The ring carries more than one tensor through each link where there are more than two ranks.",
            _ring(lambda n, right: Terms(right.messages, 1)),
        ),
        *as_if(
            "There are N - 1 others, and N - 1 steps around the ring, not N.",
            _when(_WITH_N),
            *(_when({name: mistaken}) for name, mistaken in _WITH_N.items()),
            _ring(lambda n, right: Terms(2 * n, right.tensors)),
            _ring(lambda n, right: Terms(right.messages, 2)),
        ),
        *as_if(
            "In the star the sum goes back only when all tensors have come: rank 0 does one thing after the "
            "other, 2 (N - 1) times.",
            _star(lambda n, right: Terms(n - 1, n - 1)),
            _star(lambda n, right: Terms(right.messages, n - 1)),
            _star(lambda n, right: Terms(2, right.tensors)),
            _star(lambda n, right: Terms(2, 2)),
        ),
        *as_if(
            "Where N is no power of two, some ranks have no partner: lg N is rounded down, and 2 messages "
            "and 2 tensors come on top.",
            _doubling(log2, 0),
            _doubling(log2, 2),
            _doubling(_rounded_up, 0),
            _doubling(_rounded_up, 2),
            _doubling(_rounded_down, 0),
        ),
        *as_if(
            "lg is the logarithm to base 2, and this is the natural one: `log2`.",
            _doubling(log, 2),
            _doubling(lambda n: int(log(n)), 2),
        ),
        *as_if(
            "There is a factor of 8 too much in the bytes' time: S is in bytes and the bandwidth in "
            "bytes/s, so there are no bits anywhere.",
            _with_bandwidth(8),
            _with_bandwidth(1 / 8),
        ),
        *as_if("This is in milliseconds: seconds are asked for.", lambda *a: 1e3 * seconds(*a)),
        *as_if("This is in microseconds: seconds are asked for.", lambda *a: 1e6 * seconds(*a)),
        rounded,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
