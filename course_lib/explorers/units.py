"""Numbers as people read them, with their units: in all explorers the same."""

from __future__ import annotations

from collections.abc import Mapping

_ROUND = (1, 1.5, 2, 3, 5, 7.5, 10)  # where an axis may end, times a power of ten


def four_digits(number: float, units: Mapping[str, float]) -> str:
    """``number`` in the largest unit that it fills.  ``units``: name -> size, the largest first."""
    rounded = float(f"{number:.4g}")  # first, so that 999.99 MB is 1 GB
    unit, factor = next(((u, f) for u, f in units.items() if rounded >= f), list(units.items())[-1])
    return f"{rounded / factor:.4g} {unit}"


def size(number: float) -> str:
    """Bytes as people read them: four digits, decimal units."""
    return four_digits(number, {"PB": 1e15, "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1})


def count(number: float) -> str:
    """Parameters as people read them: 6.738 B, 124.4 M."""
    return four_digits(number, {"T": 1e12, "B": 1e9, "M": 1e6, "k": 1e3, "": 1}).rstrip()


def bytes_text(number: int) -> str:
    """A tensor's size: in binary units where it is a whole number of them, else in decimal ones."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        count, rest = divmod(number, 1 << shift)
        if 1 <= count < 1024 and not rest:
            return f"{count} {unit}"
    return size(number)


def duration(seconds: float) -> str:
    """Seconds as people read them: three digits."""
    for factor, unit in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def seconds_text(number: float) -> str:
    """Seconds as a model gives them: four digits, down to nanoseconds."""
    return four_digits(number, {"days": 86400, "h": 3600, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9})


def latency_text(latency: float) -> str:
    """Seconds of a message, which may be 0."""
    return seconds_text(latency) if latency else "0 s"


def byte_rate_text(rate: float) -> str:
    """A rate as programs count it: in bytes per second, four digits."""
    return four_digits(rate, {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1})


def rate_text(rate: float) -> str:
    """A rate, in bytes per second, as it is sold: in bits per second."""
    unit, factor = ("Gbit/s", 1e9) if 8 * rate >= 1e9 else ("Mbit/s", 1e6)
    return f"{8 * rate / factor:g} {unit}"


def axis_end(number: float) -> float:
    """The next round number from ``number`` up."""
    power = 10.0 ** (len(f"{int(number)}") - 1)
    return next(step * power for step in _ROUND if step * power >= number)
