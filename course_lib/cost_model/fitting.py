"""From measured times back to the latency and bandwidth of the links.

Stands on ``seconds``, whose ``terms`` say how many messages and tensors a time is made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from course_lib.arguments import number, whole_number
from course_lib.cost_model.seconds import is_list, terms

_PASSES = 5
_ROUNDING = 1e-12  # of a value: points without any noise have no smaller error than this
_MOST_APART = 1e9  # times: no network has such a range, and least squares fail on it


@dataclass(frozen=True)
class Fit:
    """What a series of times says about its links.  The errors are standard errors.

    ``latency`` in seconds, never below 0; ``bandwidth`` in bytes/s.  ``notes``: sentences on what the points
    can't tell.
    """

    latency: float
    bandwidth: float
    latency_error: float
    bandwidth_error: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        latency = _with_error(self.latency, self.latency_error, {"s": 1, "ms": 1e-3, "µs": 1e-6})
        bandwidth = _with_error(self.bandwidth, self.bandwidth_error, {"GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3})
        return "\n".join([f"latency {latency}, bandwidth {bandwidth}", *self.notes])


def fit(algorithm: str, bytes: Iterable[int], seconds: Iterable[float], ranks: int | Iterable[int]) -> Fit:
    """Latency and bandwidth from measured times: one of ``seconds`` for each of ``bytes``.

    ``ranks`` is one number for all points, or one for each.  Seconds per message over bytes per message are
    a straight line, whose height at 0 is the latency and whose slope is 1 / bandwidth.  Least squares of
    *relative* distances find it; absolute ones would leave small sizes, which tell the latency, no weight.

    Raises ValueError when there are fewer than 3 points, when their messages are all of one size, when a time
    is not above 0, when there are not as many of each, and when times do not grow with the bytes.
    """
    message_bytes, times = _per_message(algorithm, bytes, seconds, ranks)
    (slope, latency), (slope_error, latency_error) = _line(message_bytes, times)
    if slope * np.ptp(message_bytes) <= _ROUNDING * times.max():
        raise ValueError("seconds do not grow with bytes: expected larger sizes, else there is no bandwidth")
    notes = tuple(_notes(slope, slope_error, latency, latency_error))
    if latency < 0:
        latency, (slope, slope_error) = 0.0, _slope_through_zero(message_bytes, times)
    return Fit(latency, 1 / slope, latency_error, slope_error / slope**2, notes)


def _per_message(
    algorithm: str, bytes: Iterable[int], seconds: Iterable[float], ranks: int | Iterable[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and seconds per message of each point."""
    sizes = [whole_number("bytes", size) for size in _list("bytes", bytes)]
    times = [number("seconds", time) for time in _list("seconds", seconds)]
    worlds = list(ranks) if is_list(ranks) else [ranks] * len(sizes)
    if not len(sizes) == len(times) == len(worlds):
        counts = f"{len(sizes)} bytes, {len(times)} seconds" + f", {len(worlds)} ranks" * is_list(ranks)
        raise ValueError(f"{counts}: expected as many of each")
    costs = [terms(algorithm, whole_number("ranks", world, least=2)) for world in worlds]
    if len(sizes) < 3:
        raise ValueError(f"{len(sizes)} points: expected 3 or more, since any two lie on some line")
    messages, tensors = np.array(costs).reshape(-1, 2).T
    message_bytes = tensors * np.array(sizes, float) / messages
    if np.ptp(message_bytes) <= 1e-6 * message_bytes.max():
        raise ValueError(
            f"bytes={sorted(set(sizes))}: all messages have one size; expected two or more sizes, to tell "
            "latency from bandwidth"
        )
    if max(times) > _MOST_APART * min(times):
        raise ValueError(f"seconds from {min(times):g} to {max(times):g}: expected times of one network")
    return message_bytes, np.array(times) / messages


def _line(x: np.ndarray, y: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Slope and height at 0 of the line with the least relative distances, and their errors."""
    scale = y
    for _ in range(_PASSES):
        line, covariance = np.polyfit(x, y, 1, w=1 / scale, cov=True)
        on_line = np.polyval(line, x)
        # Relative to the line: relative to the points, those that came out too low would count too much.
        scale = np.where(on_line > 0, on_line, y)
    rounding = _ROUNDING * np.array([abs(line[0]), y.min()])
    errors = np.maximum(np.sqrt(covariance.diagonal()), rounding)
    return tuple(line.tolist()), tuple(errors.tolist())


def _slope_through_zero(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of the line through 0 with the least relative distances, and its error."""
    slopes = y / x
    error = slopes.std(ddof=1) / len(slopes) ** 0.5
    return float(slopes.mean()), float(max(error, _ROUNDING * slopes.mean()))


def _notes(slope: float, slope_error: float, latency: float, latency_error: float) -> Iterable[str]:
    """What the points can't tell, at two standard errors."""
    if latency < -2 * latency_error:
        yield "Times grow faster than bytes: one latency and one bandwidth do not fit all points."
    elif latency < 2 * latency_error:
        yield "The latency can't be told from 0: smaller sizes would show it."
    if slope < 2 * slope_error:
        yield "The bandwidth is hardly known: larger sizes would show it."


def _with_error(value: float, error: float, units: dict[str, float]) -> str:
    """A value with its error in the same unit, the largest in which either is 1 or more."""
    unit = next((unit for unit, factor in units.items() if max(value, error) >= factor), list(units)[-1])
    two_digits = float(f"{error / units[unit]:.2g}")
    return f"{value / units[unit]:.4g} ± {two_digits:g} {unit}"


def _list(name: str, values: object) -> list:
    if not is_list(values):
        raise ValueError(f"{name}={values!r}: expected a list of numbers")
    return list(values)
