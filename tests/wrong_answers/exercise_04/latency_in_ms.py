"""ms."""

import numpy as np

PART = "fit_ring"
SENTENCE = "The latency is in milliseconds, and seconds are asked for."


def fit_ring(ranks, sizes, seconds):
    x, y = np.array(sizes) / ranks, np.array(seconds) / (2 * (ranks - 1))
    slope, height = np.polyfit(x, y, 1)
    return 1000 * height, 1 / slope
