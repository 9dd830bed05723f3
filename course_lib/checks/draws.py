"""The random numbers of cases: the same at every check in a notebook, others for each marking.

What a learner can look up in a notebook's check is then no answer to what a class is marked with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from random import Random

_salt: ContextVar[str] = ContextVar("salt", default="")


def random(seed: object) -> Random:
    """Random numbers that depend on the seed, and on the marking."""
    return Random(f"{seed}{_salt.get()}")


@contextlib.contextmanager
def salted(salt: str) -> Iterator[None]:
    """Numbers that are drawn in the block are other ones for each ``salt``; "" gives a notebook's."""
    token = _salt.set(salt and f" {salt}")
    try:
        yield
    finally:
        _salt.reset(token)
