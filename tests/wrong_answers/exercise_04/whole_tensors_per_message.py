"""S in each message."""

import numpy as np

PART = "fit_ring"
SENTENCE = "The bandwidth is N times too large"


def fit_ring(ranks, sizes, seconds):
    slope, height = np.polyfit(sizes, np.array(seconds) / (2 * (ranks - 1)), 1)
    return height, 1 / slope
