"""Divided where it should be multiplied."""

import numpy as np

PART = "fit_ring"
SENTENCE = "The bandwidth is off by the factor 2(N-1)/N"


def fit_ring(ranks, sizes, seconds):
    slope, height = np.polyfit(sizes, seconds, 1)
    return height / (2 * (ranks - 1)), 1 / slope / (2 * (ranks - 1) / ranks)
