"""max(…, 0) on each step."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "are replaced by 0"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    steps = [
        (
            (big_batch * big - small_batch * small) / (big_batch - small_batch),
            (small - big) / (1 / small_batch - 1 / big_batch),
        )
        for small, big in zip(small_norms_sq, big_norms_sq, strict=True)
    ]
    gradient_sq = mean(max(gradient, 0.0) for gradient, _ in steps)
    noise_trace = mean(max(noise, 0.0) for _, noise in steps)
    scale = noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
    return gradient_sq, noise_trace, scale
