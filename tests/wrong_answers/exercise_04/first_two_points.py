"""A line through two points."""

PART = "fit_ring"
SENTENCE = "This is the line through two of the points"


def fit_ring(ranks, sizes, seconds):
    (x, next_x, *_), (y, next_y, *_) = sizes, seconds
    slope = (next_y - y) / (next_x - x) * ranks / (2 * (ranks - 1))
    return y / (2 * (ranks - 1)) - slope * x / ranks, 1 / slope
