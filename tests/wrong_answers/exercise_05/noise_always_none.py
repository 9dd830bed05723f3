"""One comparison too many."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "say that there is a noise scale"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = mean(small_norms_sq), mean(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    return gradient_sq, noise_trace, noise_trace / gradient_sq if gradient_sq > 1 else None
