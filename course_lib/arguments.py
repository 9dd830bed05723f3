"""Refuses bad arguments of the course's formulas with one sentence: the value, and what was expected."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from numbers import Real

_EXACT_FLOATS = 2**53  # above it, not every whole number is a float, so 1e23 is not what it says


def whole_number(name: str, value: object, least: int = 1) -> int:
    """``value`` as an int, exactly.  ``8e9`` is as good as ``8_000_000_000``.

    Raises ValueError for what is not a whole number of at least ``least``, and for floats too large to be
    exact.
    """
    number = _exact_int(value)
    if number is None or number < least:
        expected = "a positive whole number" if least == 1 else f"a whole number, {least} or more"
        raise ValueError(f"{name}={value!r}: expected {expected}{_hint(value)}")
    return number


def one_of(name: str, value: object, options: Iterable[str]) -> str:
    """``value``, if it is one of the options.  Else raises ValueError, with the nearest one."""
    names = list(options)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value).lower(), names, n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, names))}{guess}")


class Catalog(dict):
    """A dict that answers an unknown name with a ValueError that lists the names it has."""

    def __init__(self, kind: str, entries: dict) -> None:
        super().__init__(entries)
        self._kind = kind

    def __getitem__(self, name: str):
        return super().__getitem__(one_of(self._kind, name, self))


def _exact_int(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # int, and numpy's integers
    except TypeError:
        pass
    if isinstance(value, Real) and value == value and abs(value) <= _EXACT_FLOATS and value == int(value):
        return int(value)
    return None


def _hint(value: object) -> str:
    too_large = isinstance(value, float) and _EXACT_FLOATS < value < float("inf")
    return "; a float this large is not exact, so write it as an int" if too_large else ""
