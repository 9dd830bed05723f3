"""The square of a mean norm."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "The norms are averaged over the steps before they are squared"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = (mean(norm**0.5 for norm in norms) ** 2 for norms in (small_norms_sq, big_norms_sq))
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    scale = noise_trace / gradient_sq if gradient_sq > 0 and noise_trace >= 0 else None
    return gradient_sq, noise_trace, scale
