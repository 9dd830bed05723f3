"""Gradient over noise."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "The ratio is upside down"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = mean(small_norms_sq), mean(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    scale = gradient_sq / noise_trace if min(gradient_sq, noise_trace) > 0 else None
    return gradient_sq, noise_trace, scale
