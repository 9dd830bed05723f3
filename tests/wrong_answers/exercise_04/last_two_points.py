"""A line through the largest points."""

PART = "fit_ring"
SENTENCE = "This is the line through two of the points"


def fit_ring(ranks, sizes, seconds):
    (*_, x, last_x), (*_, y, last_y) = zip(*sorted(zip(sizes, seconds, strict=True)), strict=True)
    slope = (last_y - y) / (last_x - x) * ranks / (2 * (ranks - 1))
    return y / (2 * (ranks - 1)) - slope * x / ranks, 1 / slope
