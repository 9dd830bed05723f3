"""Each step's |G|² and tr(Σ), and the median of them."""

from statistics import median

PART = "noise_scale"
SENTENCE = "The median over the steps is taken for their mean"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    pairs = list(zip(small_norms_sq, big_norms_sq, strict=True))
    gradient_sq = median((big_batch * b - small_batch * s) / (big_batch - small_batch) for s, b in pairs)
    noise_trace = median((s - b) / (1 / small_batch - 1 / big_batch) for s, b in pairs)
    scale = noise_trace / gradient_sq if gradient_sq > 0 and noise_trace >= 0 else None
    return gradient_sq, noise_trace, scale
