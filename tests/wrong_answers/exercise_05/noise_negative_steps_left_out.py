"""Steps below 0 are taken for faulty."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "are left out"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    steps = [
        (
            (big_batch * big - small_batch * small) / (big_batch - small_batch),
            (small - big) / (1 / small_batch - 1 / big_batch),
        )
        for small, big in zip(small_norms_sq, big_norms_sq, strict=True)
    ]
    steps = [step for step in steps if min(step) > 0] or [(0.0, 0.0)]
    gradient_sq, noise_trace = (mean(column) for column in zip(*steps, strict=True))
    scale = noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
    return gradient_sq, noise_trace, scale
