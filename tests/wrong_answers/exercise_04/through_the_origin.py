"""No latency."""

PART = "fit_ring"
SENTENCE = "The line goes through the origin"


def fit_ring(ranks, sizes, seconds):
    carried = [2 * (ranks - 1) / ranks * size for size in sizes]
    slope = sum(x * y for x, y in zip(carried, seconds, strict=True)) / sum(x * x for x in carried)
    return 0.0, 1 / slope
