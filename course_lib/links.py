"""Slow links for ``ranks.run(…, links=Links("400mbit"))``: a network that a laptop's ranks have to wait for.

Two kinds.  *Real*: on Linux each rank gets a network namespace of its own behind rate-limited links, without
root's rights; real packets, and every torch.distributed function goes through them (ranks/network.py).
*Paced*: where namespaces are refused, messages between ranks are held back in software for as long as such
links would take (ranks/pacing.py); that slows down point-to-point messages, thus the course's own
all-reduces, and nothing else.  ``available()`` says which kind this machine has, and why.

Behind real links a rank reaches the other ranks only: load data before, not in a rank.  Paced ones let the
messages of a rank that exchanges with several others at once take turns, where real ones share.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from course_lib import namespaces

MOST_RANKS = 16
# Bytes that an idle link saves up for.  Packets are handed over in pieces of up to 64 KiB, so with 32 KiB the
# rate is halved; with more than this, messages of some 100 KiB would pass faster than the rate.
BURST = 128 << 10
KINDS = ("auto", "real", "paced")
_LEAST_RATE, _MOST_RATE = 125e3 / 10, 12.5e9  # bytes/s: 100 kbit/s, 100 Gbit/s
_MOST_LATENCY = 10.0
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)bit(?:/s)?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|ms|us|µs)")
_FACTORS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


class LinksUnavailable(RuntimeError):
    """Real links were asked for and this machine refuses them; str() says which rule it was."""


@dataclass(frozen=True)
class RankLink:
    """One rank's link: bytes/s in each direction, and seconds that what it sends is under way."""

    rate: float
    latency: float = 0.0


@dataclass(frozen=True)
class Available:
    """What kind of slow links this machine has.

    ``real``: network namespaces; else messages are paced in software.  ``latency``: real links can have a
    latency, too (the kernel has netem).  ``reason``: why not, "" where there is nothing to say.
    """

    real: bool
    latency: bool
    reason: str = ""

    def __str__(self) -> str:
        if not self.real:
            return f"Links are paced in software. Real ones: {self.reason}"
        if not self.latency:
            return f"Real links, in network namespaces. {self.reason}"
        return "Real links, in network namespaces, with latency."


@dataclass(frozen=True)
class Links:
    """Links between ranks and the switch that joins them, the same in both directions.

    rate: ``"400mbit"``, ``"1gbit"`` (per second, as network people count), or a number in bytes/s.
    rank_rates: the ranks whose links differ, as in ``{2: "100mbit"}``.
    latency: what a message spends on its way beside its transfer, ``"1ms"`` or a number in seconds.
    kind: ``"real"``, ``"paced"`` (in software), or ``"auto"``: real where this machine has what it takes.

    Raises ValueError for values that make no sense.
    """

    rate: str | float = "400mbit"
    rank_rates: Mapping[int, str | float] = field(default_factory=dict)
    latency: str | float = 0.0
    kind: str = "auto"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: expected one of {', '.join(map(repr, KINDS))}")
        bytes_per_second(self.rate)
        seconds(self.latency)
        if not isinstance(self.rank_rates, Mapping):
            raise ValueError(f'rank_rates={self.rank_rates!r}: expected a dict as in {{2: "100mbit"}}')
        for rank, rate in self.rank_rates.items():
            if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < MOST_RANKS:
                raise ValueError(f"rank_rates={self.rank_rates!r}: {rank!r} is no rank")
            bytes_per_second(rate)

    @property
    def bandwidth(self) -> float:
        """Bytes/s of a link in each direction, where ``rank_rates`` says nothing else."""
        return bytes_per_second(self.rate)

    @property
    def is_real(self) -> bool:
        """Whether these links are real here, or paced in software.

        Raises LinksUnavailable where real ones were asked for and can't be had.
        """
        if self.kind == "paced":
            return False
        missing = self._missing()
        if missing and self.kind == "real":
            raise LinksUnavailable(f"Real links can't be had here. {missing}")
        return not missing

    @property
    def label(self) -> str:
        """What a picture says of points measured on these links."""
        text = f"{_rate_text(self.bandwidth)} links"
        if self.rank_rates:
            slow = ", ".join(f"{_rate_text(bytes_per_second(rate))} for rank {rank}"
                             for rank, rate in sorted(self.rank_rates.items()))  # fmt: skip
            text += f" ({slow})"
        if self.latency:
            text += f" with {seconds(self.latency) * 1e3:g} ms latency"
        return text if self.is_real else f"{text}, paced in software"

    def of_ranks(self, ranks: int) -> list[RankLink]:
        """Each rank's link, in rank order; ValueError for too many ranks, or rates for ranks not there."""
        if ranks > MOST_RANKS:
            raise ValueError(f"ranks={ranks}: at most {MOST_RANKS} ranks can have links of their own")
        strangers = sorted(rank for rank in self.rank_rates if rank >= ranks)
        if strangers:
            raise ValueError(f"rank_rates={self.rank_rates!r}: there is no rank {strangers[0]} of {ranks}")
        rates = [bytes_per_second(self.rank_rates.get(rank, self.rate)) for rank in range(ranks)]
        return [RankLink(rate, seconds(self.latency)) for rate in rates]

    def _missing(self) -> str:
        """What real links like these would need and this machine lacks; "" if nothing."""
        found = available()
        if not found.real or (seconds(self.latency) and not found.latency):
            return found.reason
        return ""


@functools.cache
def available() -> Available:
    """What this machine has, tried once in a child process; ``print`` it to read it."""
    refusal = namespaces.refusal()
    if refusal:
        return Available(real=False, latency=False, reason=refusal)
    if not namespaces.has_netem():
        return Available(real=True, latency=False, reason=(
            "The kernel has no netem, so links with a latency are paced in software; "
            "it may help to load it: sudo modprobe sch_netem"
        ))  # fmt: skip
    return Available(real=True, latency=True)


def bytes_per_second(rate: str | float) -> float:
    """``"400mbit"`` is 50e6 bytes/s; numbers are bytes/s already.  ValueError for anything else."""
    value = _parsed(rate, _RATE, lambda number, unit: number * _FACTORS[unit.lower()] / 8)
    if value is None or not _LEAST_RATE <= value <= _MOST_RATE:
        raise ValueError(
            f'rate={rate!r}: expected bits per second such as "400mbit" or "1gbit", or a number of bytes/s, '
            "from 100 kbit/s to 100 Gbit/s"
        )
    return value


def seconds(latency: str | float) -> float:
    """``"1ms"`` is 0.001; numbers are seconds already.  ValueError for anything else."""
    value = _parsed(latency, _TIME, lambda number, unit: number * _FACTORS[unit])
    if value is None or not 0 <= value <= _MOST_LATENCY:
        raise ValueError(
            f'latency={latency!r}: expected a time such as "1ms" or "200us", or a number of seconds, '
            f"from 0 to {_MOST_LATENCY:.0f} s"
        )
    return value


def _parsed(value: object, pattern: re.Pattern, convert) -> float | None:
    if isinstance(value, str):
        match = pattern.fullmatch(value.strip())
        return convert(float(match[1]), match[2]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _rate_text(bandwidth: float) -> str:
    bits = bandwidth * 8
    for name, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits >= size:
            return f"{bits / size:g} {name}"
    return f"{bits:g} bit/s"
