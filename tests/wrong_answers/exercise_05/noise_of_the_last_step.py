"""The last step alone."""

PART = "noise_scale"
SENTENCE = "Only one of the steps is used"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = small_norms_sq[-1], big_norms_sq[-1]
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    scale = noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
    return gradient_sq, noise_trace, scale
