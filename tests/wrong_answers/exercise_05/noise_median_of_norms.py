"""The median in place of the mean."""

from statistics import median

PART = "noise_scale"
SENTENCE = "The median over the steps is taken for their mean"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = median(small_norms_sq), median(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    scale = noise_trace / gradient_sq if gradient_sq > 0 and noise_trace >= 0 else None
    return gradient_sq, noise_trace, scale
