"""Which parameters share a bucket, and so an all-reduce: decided from their sizes alone.

    buckets.assign([64, 32, 400, 8], bucket_bytes=100)      # [[3, 2], [1, 0]]

Parameters are taken in reverse, since the backward pass reaches the last layers first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from course_lib.arguments import number

MIB = 2**20


def assign(
    sizes: Sequence[int],
    bucket_bytes: float,
    first_bucket_bytes: float | None = None,
    keys: Sequence[Hashable] | None = None,
) -> list[list[int]]:
    """The indices of ``sizes`` in buckets, last index first, in the order in which buckets fill up.

    A bucket takes parameters until it has reached ``bucket_bytes``, so that it may be larger by a part of its
    last one: parameters are never split.  The first bucket needs ``first_bucket_bytes``.  Parameters with
    different ``keys``, such as types, never share a bucket.  This is how torch's DDP fills its buckets
    (torch/csrc/distributed/c10d/reducer.cpp).

    Raises ValueError for limits that are not above 0 (infinity is: one bucket for all).
    """
    limit = _limit("bucket_bytes", bucket_bytes)
    first = limit if first_bucket_bytes is None else _limit("first_bucket_bytes", first_bucket_bytes)
    filling: dict[Hashable, list[int]] = {}
    closed: list[list[int]] = []
    firsts = set()  # keys whose first bucket is closed
    for index in reversed(range(len(sizes))):
        key = None if keys is None else keys[index]
        bucket = filling.setdefault(key, [])
        bucket.append(index)
        if sum(sizes[each] for each in bucket) >= (limit if key in firsts else first):
            closed.append(filling.pop(key))
            firsts.add(key)
    return sorted([*closed, *filling.values()], key=lambda bucket: -bucket[-1])


def limits(bucket_mb: float, first_bucket_mb: float) -> tuple[float, float]:
    """Bytes of ``bucket_mb`` and ``first_bucket_mb``, which are MiB; the first is never the larger one.

    Raises ValueError unless both are above 0.
    """
    bucket = MIB * _limit("bucket_mb", bucket_mb)
    return bucket, min(bucket, MIB * _limit("first_bucket_mb", first_bucket_mb))


def _limit(name: str, value: float) -> float:
    return math.inf if value == math.inf else number(name, value)
