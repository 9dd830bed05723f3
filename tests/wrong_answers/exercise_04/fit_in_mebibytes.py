"""MiB/s."""

import numpy as np

PART = "fit_ring"
SENTENCE = "The bandwidth is in MiB/s, and bytes/s are asked for."


def fit_ring(ranks, sizes, seconds):
    x, y = np.array(sizes) / ranks, np.array(seconds) / (2 * (ranks - 1))
    slope, height = np.polyfit(x / 2**20, y, 1)
    return height, 1 / slope
