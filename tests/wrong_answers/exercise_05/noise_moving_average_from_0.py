"""A moving average that begins with 0, and is corrected for it, as Adam's moments are."""

PART = "noise_scale"
SENTENCE = "exponential moving average"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch, decay=0.95):
    small = big = 0.0
    for one, other in zip(small_norms_sq, big_norms_sq, strict=True):
        small, big = decay * small + (1 - decay) * one, decay * big + (1 - decay) * other
    correction = 1 - decay ** len(small_norms_sq)
    small, big = small / correction, big / correction
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    known = gradient_sq > 0 and noise_trace >= 0
    return gradient_sq, noise_trace, noise_trace / gradient_sq if known else None
