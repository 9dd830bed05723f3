"""Seconds of an all-reduce, and the bus bandwidth that a measured time means.

Stands on ``pairing``, which says who meets whom.  No torch: bytes and ranks in, seconds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeGuard

from course_lib.arguments import Catalog, number, one_of, whole_number
from course_lib.cost_model.pairing import doublings, powers_of_two, staying

ALGORITHMS = ("star", "tree", "recursive-doubling", "halving-doubling", "unchunked-ring", "ring")


class Terms(NamedTuple):
    """seconds = messages · latency + tensors · bytes / bandwidth"""

    messages: int
    tensors: float


def terms(algorithm: str, ranks: int) -> Terms:
    """The two factors of an algorithm's cost.  Raises ValueError for an unknown one, and for 0 ranks."""
    return _terms(one_of("algorithm", algorithm, ALGORITHMS), whole_number("ranks", ranks))


def all_reduce_seconds(
    algorithm: str, bytes: int, ranks: int, latency: float, bandwidth: float | Iterable[float]
) -> float:
    """Seconds that an all-reduce of ``bytes`` takes on ``ranks`` ranks; 0 on a single one.

    ``latency``: seconds a message.  ``bandwidth``: bytes/s that each rank's link carries in one direction,
    or one such number for each rank.  A message then goes at the pace of the slower end, and ranks that
    exchange at the same time wait for the slowest of them: one slow link slows a whole ring down.  The star's
    root receives from one after another, and sends back to all at once.

    Raises ValueError for an unknown algorithm, and for numbers that can't be.
    """
    messages, tensors = terms(algorithm, ranks)
    size = whole_number("bytes", bytes, least=0)
    delay = number("latency", latency, least=0)
    if not is_list(bandwidth):
        return messages * delay + tensors * size / number("bandwidth", bandwidth)
    rates = _rates(bandwidth, whole_number("ranks", ranks))
    stages = list(_stages(algorithm, len(rates)))
    return messages * delay + size * sum(stage.seconds_per_byte(rates) for stage in stages)


def limit_seconds(bytes: int, ranks: int, bandwidth: float) -> float:
    """The least that any all-reduce can take where each rank's link carries ``bandwidth`` bytes/s.

    That is 2 (p-1)/p of the tensor through each link, and no latency (Patarasuk and Yuan, 2009).
    Raises ValueError for numbers that can't be.
    """
    return all_reduce_seconds("ring", bytes, ranks, 0, number("bandwidth", bandwidth))


def crossover(one: str, other: str, ranks: int, latency: float, bandwidth: float) -> float | None:
    """The bytes at which two algorithms take equally long; None where one of them never is the slower.

    Below, the one with fewer messages is the faster.  Raises ValueError as all_reduce_seconds does.
    """
    first, second = terms(one, ranks), terms(other, ranks)
    delay, rate = number("latency", latency, least=0), number("bandwidth", bandwidth)
    more_messages, more_tensors = second.messages - first.messages, second.tensors - first.tensors
    if not delay or more_messages * more_tensors >= 0:
        return None
    return -more_messages * delay * rate / more_tensors


# --- the algorithms ---


class _Stage(NamedTuple):
    """Messages one after another, each with a share of the tensor, over the links of some ranks.

    ``at_once``: they go from the first of these ranks to all others at the same time.
    """

    messages: int
    share: Fraction | int
    ranks: Sequence[int]
    at_once: bool = False

    def seconds_per_byte(self, rates: Sequence[float]) -> float:
        """For each byte of the tensor, where rank r's link carries ``rates[r]`` bytes/s."""
        if self.at_once:
            root, *others = (rates[rank] for rank in self.ranks)
            return max(self.messages / root, 1 / min(others))
        return float(self.messages * self.share) / min(rates[rank] for rank in self.ranks)


@lru_cache(maxsize=1024)
def _terms(algorithm: str, ranks: int) -> Terms:
    stages = list(_stages(algorithm, ranks))
    tensors = sum(stage.messages * stage.share for stage in stages)
    return Terms(sum(stage.messages for stage in stages), float(tensors))


def _stages(algorithm: str, ranks: int) -> Iterator[_Stage]:
    everybody = range(ranks)
    if ranks == 1:
        return
    if algorithm == "star":
        yield from (_Stage(1, 1, (0, other)) for other in everybody[1:])
        yield _Stage(ranks - 1, 1, everybody, at_once=True)
    elif algorithm == "tree":
        for distance in powers_of_two(below=ranks):
            senders = everybody[distance :: 2 * distance]
            yield _Stage(2, 1, [*senders, *(sender - distance for sender in senders)])
    elif algorithm == "unchunked-ring":
        yield _Stage(ranks - 1, 1, everybody)
    elif algorithm == "ring":
        yield _Stage(2 * (ranks - 1), Fraction(1, ranks), everybody)
    else:
        yield from _stages_in_pairs(algorithm, ranks)


def _stages_in_pairs(algorithm: str, ranks: int) -> Iterator[_Stage]:
    rounds, remaining = doublings(ranks), staying(ranks)
    folded = 2 * (ranks - len(remaining))
    if folded:
        yield _Stage(2, 1, range(folded))
    if algorithm == "recursive-doubling":
        yield _Stage(rounds, 1, remaining)
    else:  # 1/2, 1/4, ... of the tensor, and back: here their average
        yield _Stage(2 * rounds, Fraction(ranks - 1, ranks * rounds), remaining)


# --- bus bandwidth ---

# Times bytes / seconds: what a link carries if the collective is done in the best way (NVIDIA, nccl-tests,
# doc/PERFORMANCE.md).
_BUS_FACTORS = Catalog("collective", {
    "all-reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all-reduce-in-network": lambda ranks: (ranks - 1) / (ranks + 1),
    "reduce-scatter": lambda ranks: (ranks - 1) / ranks,
    "all-gather": lambda ranks: (ranks - 1) / ranks,
    "all-to-all": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0,
    "reduce": lambda ranks: 1.0,
})
COLLECTIVES = tuple(_BUS_FACTORS)


def bus_bandwidth(collective: str, bytes: int, seconds: float, ranks: int) -> float:
    """What nccl-tests prints as busbw, in bytes/s: comparable with a link's own rate for any number of ranks.

    ``bytes`` is the whole tensor: for ``reduce-scatter`` the one that goes in, for ``all-gather`` the one
    that comes out.  ``all-reduce-in-network``: the switches add.  Raises ValueError for an unknown
    collective, and for numbers that can't be.
    """
    factor = _BUS_FACTORS[collective](whole_number("ranks", ranks))
    return factor * whole_number("bytes", bytes, least=0) / number("seconds", seconds)


# --- arguments ---


def is_list(value: object) -> TypeGuard[Iterable]:
    """Whether ``value`` is a list of some kind: a range, the values of a dict, an array with one axis."""
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        return False
    return getattr(value, "ndim", 1) == 1


def _rates(bandwidth: Iterable[float], ranks: int) -> list[float]:
    rates = [number("bandwidth", rate) for rate in bandwidth]
    if len(rates) != ranks:
        raise ValueError(f"bandwidth has {len(rates)} numbers: expected one for each of {ranks} ranks")
    return rates
