"""|G_big|² for |G|²."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "|G_big|² is taken for |G|². It has noise"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = mean(small_norms_sq), mean(big_norms_sq)
    gradient_sq = big
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    scale = noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
    return gradient_sq, noise_trace, scale
