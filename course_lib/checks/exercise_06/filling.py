"""Part 2: which parameters share a bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from course_lib import buckets
from course_lib.checks import draws, mistakes
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part

Buckets = tuple[tuple[int, ...], ...]

_SECRET = "thirty parameters"
_GIVEN: dict[str, tuple[tuple[int, ...], int]] = {
    "six parameters": ((8, 8, 6, 3, 8, 8), 16),
    "the last bucket comes out even": ((4, 4, 4, 4, 4, 4), 8),
    "a parameter larger than a bucket": ((10, 5, 90, 4, 10, 7), 20),
    "large ones at both ends": ((64, 2, 2, 2, 48), 16),
    "each bucket goes beyond the limit": ((7, 7, 7, 7, 7, 7), 10),
    "one parameter": ((24,), 100),
    "a bucket that holds them all": ((5, 3, 2, 8), 1000),
    "buckets that are smaller than each of them": ((5, 3, 2, 8), 1),
}


def _draw(_: int) -> list[Case]:
    random = draws.random(_SECRET)
    secret = tuple(random.choice((1, 2, 3, 5, 8, 40)) for _ in range(30)), 12
    given = _GIVEN | {_SECRET: secret}
    return [
        Case.alone(_title(title, *arguments), arguments, _right(*arguments), secret=title == _SECRET)
        for title, arguments in given.items()
    ]


def _title(title: str, sizes: Sequence[int], bucket_bytes: int) -> str:
    shown = f"{', '.join(map(str, sizes))} bytes, " if title != _SECRET else ""
    return f"{title}: {shown}buckets of {bucket_bytes}"


def _right(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    return tuple(map(tuple, buckets.assign(sizes, bucket_bytes)))


# --- What mistakes look like ---

Closes = Callable[[int, int, int], bool]  # by the bytes in it, the size of the next one, and the limit


def _filled(closes: Closes, order: Callable = reversed) -> Callable[[Sequence[int], int], Buckets]:
    """Buckets each of which is closed when it has something in it and ``closes`` before the next one."""

    def compute(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
        filled: list[list[int]] = [[]]
        for index in order(range(len(sizes))):
            held = sum(sizes[i] for i in filled[-1])
            if filled[-1] and closes(held, sizes[index], bucket_bytes):
                filled.append([])
            filled[-1].append(index)
        return tuple(map(tuple, filled))

    return compute


def _when_reached(held: int, following: int, limit: int) -> bool:
    return held >= limit


def _forward_then_reversed(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    return tuple(bucket[::-1] for bucket in _filled(_when_reached, order=iter)(sizes, bucket_bytes)[::-1])


def _without_incomplete(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    return tuple(
        bucket for bucket in _right(sizes, bucket_bytes) if sum(sizes[i] for i in bucket) >= bucket_bytes
    )


def _large_ones_apart(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    """A parameter that alone is as large as a bucket gets one for itself."""
    filled: list[list[int]] = [[]]
    for index in reversed(range(len(sizes))):
        if sizes[index] >= bucket_bytes and filled[-1]:
            filled.append([])
        filled[-1].append(index)
        if sum(sizes[i] for i in filled[-1]) >= bucket_bytes:
            filled.append([])
    return tuple(tuple(bucket) for bucket in filled if bucket)


def _bytes_counted_on(sizes: Sequence[int], bucket_bytes: int, taken_off: int = 0) -> Buckets:
    """Nobody sets the bytes back to 0 for the next bucket; ``taken_off`` goes off when one closes."""
    filled: list[list[int]] = [[]]
    held = 0
    for index in reversed(range(len(sizes))):
        filled[-1].append(index)
        held += sizes[index]
        if held >= bucket_bytes:
            filled.append([])
            held -= taken_off
    return tuple(tuple(bucket) for bucket in filled if bucket)


def _limits_in_the_sum(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    """A parameter's bucket is the number of limits that fit into all bytes before it."""
    filled: dict[int, list[int]] = {}
    for index in reversed(range(len(sizes))):
        filled.setdefault(sum(sizes[index + 1 :]) // bucket_bytes, []).append(index)
    return tuple(map(tuple, filled.values()))


def _rest_carried_over(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    """The limit is taken off the bytes when a bucket closes, and the rest stays in the count."""
    return _bytes_counted_on(sizes, bucket_bytes, taken_off=bucket_bytes)


def _equally_many(sizes: Sequence[int], bucket_bytes: int) -> Buckets:
    """As many buckets as the bytes need, with the same number of parameters in each."""
    needed = -(-sum(sizes) // bucket_bytes)
    count = -(-len(sizes) // needed)
    indices = [*reversed(range(len(sizes)))]
    return tuple(tuple(indices[i : i + count]) for i in range(0, len(sizes), count))


def _no_buckets(wrong: Compared) -> str | None:
    got = wrong.got(0)
    if isinstance(got, tuple) and all(isinstance(bucket, tuple) for bucket in got):
        if all(type(index) is int for bucket in got for index in bucket):
            return None
    return "A list of buckets is expected, and each of them is a list of indices of `sizes`."


def _sorted_by_size(wrong: Compared) -> str | None:
    sizes, indices = wrong.case.arguments[0][0], [*chain(*wrong.got(0))]
    if sorted(indices) != [*range(len(sizes))]:
        return None
    in_this_order = [sizes[i] for i in indices]
    if in_this_order in (sorted(sizes), sorted(sizes, reverse=True)):
        return (
            "The parameters are sorted by size. Gradients come in the reverse order of `sizes`, whatever "
            "their sizes: a bucket that has to wait for an early layer leaves late."
        )
    return None


def _split(wrong: Compared) -> str | None:
    indices = [*chain(*wrong.got(0))]
    if len(set(indices)) < len(indices):
        return "A parameter is in several buckets: it is never split, and may be larger than a bucket."
    return None


def _empty(wrong: Compared) -> str | None:
    got = wrong.got(0)
    if () in got and tuple(filter(None, got)) == wrong.expected(0):
        return "An empty bucket is left over: an all-reduce of nothing costs its latency all the same."
    return None


def _sizes_for_indices(wrong: Compared) -> str | None:
    sizes = wrong.case.arguments[0][0]
    if wrong.got(0) == tuple(tuple(sizes[i] for i in bucket) for bucket in wrong.expected(0)):
        return "These are sizes: the indices of the parameters are asked for."
    return None


FILL_BUCKETS = Part(
    "fill_buckets(sizes, bucket_bytes)",
    _draw,
    (
        mistakes.nothing_returned,
        _no_buckets,
        _empty,
        *as_if(
            "The buckets are filled from the first parameter on. Gradients come in reverse: the bucket that "
            "is to leave first would be full last.",
            _filled(_when_reached, order=iter),
            _forward_then_reversed,
        ),
        *as_if(
            "The right buckets in the wrong order: the one that is full first is to come first.",
            lambda *arguments: _right(*arguments)[::-1],
            lambda *arguments: tuple(bucket[::-1] for bucket in _right(*arguments)[::-1]),
        ),
        *as_if(
            "The right parameters in each bucket, but in forward order: the gradient that comes first is to "
            "be first.",
            lambda *arguments: tuple(bucket[::-1] for bucket in _right(*arguments)),
        ),
        *as_if(
            "The last bucket, which does not reach the limit, is missing. Nobody would average its "
            "gradients.",
            _without_incomplete,
        ),
        *as_if(
            "Here a bucket never grows above the limit. The rule is another one: a bucket takes parameters "
            "*until it has reached* the limit, and its last one may go beyond it.",
            _filled(lambda held, following, limit: held + following > limit),
        ),
        *as_if(
            "A bucket that holds exactly as many bytes as the limit is full: it has reached it.",
            _filled(lambda held, following, limit: held > limit),
        ),
        *as_if(
            "A large parameter does not start a bucket of its own: it goes into the one that is being "
            "filled, and closes it.",
            _large_ones_apart,
        ),
        *as_if(
            "Bytes are counted on from bucket to bucket: a new one has none in it.", _bytes_counted_on
        ),
        *as_if(
            "What a bucket has beyond the limit is counted in the next one, too. A new one has no bytes in "
            "it, however many the one before it had.",
            _limits_in_the_sum,
            _rest_carried_over,
        ),
        *as_if(
            "These are buckets with equally many parameters: the limit is in bytes, and it alone closes a "
            "bucket.",
            _equally_many,
        ),
        *as_if(
            "This counts parameters: the limit is in bytes.",
            lambda sizes, limit: _filled(_when_reached)((1,) * len(sizes), limit),
        ),
        *as_if(
            "All are in one bucket: the limit is not looked at.",
            lambda sizes, limit: (tuple(reversed(range(len(sizes)))),),
        ),
        *as_if(
            "Each parameter has a bucket of its own: nothing is gathered.",
            lambda sizes, limit: tuple((i,) for i in reversed(range(len(sizes)))),
        ),
        _sizes_for_indices,
        _sorted_by_size,
        _split,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
