"""How certain a median of ratios is, and what can be said of it against a bar."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

OK, MISSED, OPEN = "ok", "!!", "can't be told"


def uncertainty(ratios: Sequence[float]) -> float:
    """The median's standard error, as a share of it; from the quartiles, which few odd rounds move little."""
    first, middle, third = statistics.quantiles(ratios, n=4)
    return 1.2533 * (third - first) / 1.349 / math.sqrt(len(ratios)) / middle


def judged(ratios: Sequence[float], least: float, most: float) -> str:
    """On which side of the bars the median is, by its standard error or more: OK, MISSED, or else OPEN."""
    middle = statistics.median(ratios)
    error = uncertainty(ratios) * middle
    if least <= middle - error and middle + error <= most:
        return OK
    return MISSED if middle + error < least or middle - error > most else OPEN
