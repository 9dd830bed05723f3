"""Bytes by what is not sent, exact fractions, and the median of all slopes."""

from fractions import Fraction
from itertools import combinations
from statistics import median


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if ranks == 1:
        return 0
    size = elements * element_bytes
    if algorithm == "ring":
        never_sent = [len(range(chunk % ranks, elements, ranks)) for chunk in (rank, rank + 1)]
        return 2 * size - sum(never_sent) * element_bytes
    return size if algorithm == "star" and rank else (ranks - 1) * size


def busiest_direction(algorithm, ranks, elements, element_bytes):
    if algorithm == "ring" and ranks > 1:
        chunks = sorted(len(range(chunk, elements, ranks)) for chunk in range(ranks))
        two_shortest = chunks[0] + (chunks[1] if ranks == 2 or chunks[0] == chunks[1] else chunks[-1])
        return (2 * elements - two_shortest) * element_bytes
    return (ranks - 1) * elements * element_bytes


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = ranks.bit_length() - 1
    more = 2 if ranks & (ranks - 1) else 0
    bound = Fraction(2 * (ranks - 1), ranks)
    messages, tensors = {
        "star": (2 * ranks - 2, 2 * ranks - 2),
        "unchunked-ring": (ranks - 1, ranks - 1),
        "ring": (2 * ranks - 2, bound),
        "recursive-doubling": (lg + more, lg + more),
        "halving-doubling": (2 * lg + more, bound + more),
    }[algorithm]
    return float(messages * Fraction(latency) + tensors * tensor_bytes / Fraction(bandwidth))


def fit_ring(ranks, sizes, seconds):
    """Theil's line: the median of the slopes between all pairs of points."""
    messages = 2 * (ranks - 1)
    points = [(size / ranks, time / messages) for size, time in zip(sizes, seconds, strict=True)]
    slope = median((t - time) / (s - size) for (size, time), (s, t) in combinations(points, 2))
    return median(time - slope * size for size, time in points), 1 / slope


def choose(ranks, mebibytes, microseconds, gigabits):
    sheet = Fraction(mebibytes) * 2**20, Fraction(microseconds, 10**6), gigabits * Fraction(10**9, 8)
    names = ["star", "unchunked-ring", "ring", "recursive-doubling", "halving-doubling"]
    times = {predicted_seconds(name, ranks, *sheet): name for name in names}
    first, second = sorted(times)[:2]
    return times[first], first, second
