"""One half's messages."""

import numpy as np

PART = "fit_ring"
SENTENCE = "The latency is off by a factor, since the messages are miscounted"


def fit_ring(ranks, sizes, seconds):
    tensors = 2 * (ranks - 1) / ranks
    slope, height = np.polyfit(tensors * np.array(sizes), seconds, 1)
    return height / (ranks - 1), 1 / slope
