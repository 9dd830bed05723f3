"""Seconds per byte."""

import numpy as np

PART = "fit_ring"
SENTENCE = "This bandwidth is the slope of a line"


def fit_ring(ranks, sizes, seconds):
    x, y = np.array(sizes) / ranks, np.array(seconds) / (2 * (ranks - 1))
    slope, height = np.polyfit(x, y, 1)
    return height, slope
