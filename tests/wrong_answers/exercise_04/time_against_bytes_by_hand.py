"""The same, with the latency of one message."""

PART = "fit_ring"
SENTENCE = "The bandwidth is off by the factor 2(N-1)/N"


def fit_ring(ranks, sizes, seconds):
    size, time = sum(sizes) / len(sizes), sum(seconds) / len(seconds)
    slope = sum((s - size) * (t - time) for s, t in zip(sizes, seconds, strict=True))
    slope /= sum((s - size) ** 2 for s in sizes)
    return (time - slope * size) / (2 * (ranks - 1)), 1 / slope
