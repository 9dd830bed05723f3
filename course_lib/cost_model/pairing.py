"""Who meets whom where ranks exchange in pairs: at distance 1, 2, 4, ...

That needs a power of two.  Of p ranks, those too many for one hand their tensor to a neighbor first, and get
the sum from it at the end; the others stay (mpich, src/mpi/coll).
"""

from __future__ import annotations

from collections.abc import Iterator


def doublings(ranks: int) -> int:
    """The logarithm to base 2 of ``ranks``, rounded down."""
    return ranks.bit_length() - 1


def staying(ranks: int) -> list[int]:
    """The ranks that stay, as many as the largest power of two.  Of the first ones, the odd ones do."""
    folded = 2 * (ranks - 2 ** doublings(ranks))
    return [*range(1, folded, 2), *range(folded, ranks)]


def powers_of_two(below: int) -> Iterator[int]:
    """1, 2, 4, ..., all that are less than ``below``."""
    power = 1
    while power < below:
        yield power
        power *= 2
