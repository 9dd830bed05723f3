"""Refuses bad arguments of the course's formulas with one sentence: the value, and what was expected.

Stands on nothing: all formulas stand on it.
"""

from __future__ import annotations

import difflib
import operator
import re
import sys
from collections.abc import Iterable
from math import nan
from numbers import Real

_EXACT_FLOATS = 2**53  # above it, not every whole number is a float, so 1e23 is not what it says
_LARGEST_FLOAT = sys.float_info.max
_MOST_GUESSES = 5  # more would narrow nothing down


def whole_number(name: str, value: object, least: int = 1) -> int:
    """``value`` as an int, exactly.  ``8e9`` is as good as ``8_000_000_000``.

    Raises ValueError for what is not a whole number of at least ``least``, and for floats too large to be
    exact.
    """
    number = exact_int(value)
    if number is None or number < least:
        expected = "a positive whole number" if least == 1 else f"a whole number, {least} or more"
        raise ValueError(f"{name}={value!r}: expected {expected}{_hint(value)}")
    return number


def number(name: str, value: object, least: float | None = None, most: float = _LARGEST_FLOAT) -> float:
    """``value`` as a float, above 0 or from ``least`` up, and ``most`` at most.

    Raises ValueError for anything else, also for a whole number that is too large for a float.
    """
    as_float = _as_float(value)
    high_enough = as_float > 0 if least is None else as_float >= least
    if not (high_enough and as_float <= most):
        expected = "a number above 0" if least is None else f"a number, {least} or more"
        expected += "" if most == _LARGEST_FLOAT else f", {most} at most"
        raise ValueError(f"{name}={_short(value)}: expected {expected}")
    return as_float


def _short(value: object) -> str:
    """As Python writes it, but for a whole number of more digits than anybody reads."""
    return "a number of over 100 digits" if isinstance(value, int) and abs(value) >= 10**100 else repr(value)


def _as_float(value: object) -> float:
    """NaN for what is no number, as a bool, or too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return nan
    try:
        return float(value)
    except OverflowError:
        return nan


def exact_int(value: object) -> int | None:
    """``value`` as an int, if it is a whole number exactly; else None, as for a bool."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # int, and numpy's integers; others raise
    except TypeError:
        pass
    as_float = _as_float(value)
    is_whole = abs(as_float) <= _EXACT_FLOATS and as_float == int(as_float) == value
    return int(as_float) if is_whole else None


def one_of(name: str, value: object, options: Iterable[str]) -> str:
    """``value``, if it is one of the options.  Else raises ValueError, with those that may be meant."""
    names = list(options)
    if isinstance(value, str) and value in names:
        return value
    meant = _meant(value, names) if isinstance(value, str) else []
    narrower = 0 < len(meant) <= min(_MOST_GUESSES, len(names) - 1)
    guess = f"; did you mean {' or '.join(map(repr, meant))}?" if narrower else ""
    raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, names))}{guess}")


def true_or_false(name: str, value: object) -> bool:
    """``value``, if it is a bool.  Else raises ValueError: 0, 1 and "no" are more likely mistakes."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: expected True or False")
    return value


class Catalog(dict):
    """A dict that answers an unknown name with a ValueError that lists the names it has."""

    def __init__(self, kind: str, entries: dict) -> None:
        super().__init__(entries)
        self._kind = kind

    def __getitem__(self, name: str):
        return super().__getitem__(one_of(self._kind, name, self))


def _meant(typed: str, names: list[str]) -> list[str]:
    """Which names ``typed`` may stand for, by the first of these that finds any."""
    plain = {name: _plain(name) for name in names}
    if not (start := _plain(typed)):
        return []
    same = [name for name in names if plain[name] == start]
    begin_so = [name for name in names if plain[name].startswith(start)]
    contain_it = [name for name in names if start in plain[name]]
    # Of "h100-80gb" the first word says more than that "a100-80gb" is one letter off.
    kin = [name for name in names if _words(name)[0] == _words(typed)[0]]
    near = difflib.get_close_matches(typed.lower(), kin or names, n=1, cutoff=0.8 if kin else 0.6)
    return same or begin_so or contain_it or near or kin


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _plain(name: str) -> str:
    """"H100_SXM" and "h100-sxm" alike."""
    return "".join(_words(name))


def _hint(value: object) -> str:
    too_large = isinstance(value, float) and _EXACT_FLOATS < value < float("inf")
    return "; a float this large is not exact, so write it as an int" if too_large else ""
