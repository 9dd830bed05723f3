"""Numbers as people read them: four digits and a unit."""

from __future__ import annotations

from collections.abc import Mapping


def four_digits(number: float, units: Mapping[str, float]) -> str:
    """``number`` in the largest unit that it fills.  ``units``: name -> size, the largest first."""
    rounded = float(f"{number:.4g}")  # first, so that 999.99 MB is 1 GB
    unit, factor = next(((u, f) for u, f in units.items() if rounded >= f), list(units.items())[-1])
    return f"{rounded / factor:.4g} {unit}"
