"""Sums, whose ratio is right."""

PART = "noise_scale"
SENTENCE = "These are sums over the steps"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = sum(small_norms_sq), sum(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    scale = noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
    return gradient_sq, noise_trace, scale
