"""Divides on each step, and then averages."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "mean of the steps' ratios"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    steps = [
        (
            (big_batch * big - small_batch * small) / (big_batch - small_batch),
            (small - big) / (1 / small_batch - 1 / big_batch),
        )
        for small, big in zip(small_norms_sq, big_norms_sq, strict=True)
    ]
    gradient_sq, noise_trace = (mean(column) for column in zip(*steps, strict=True))
    return gradient_sq, noise_trace, mean(noise / gradient for gradient, noise in steps)
