"""The estimator of a training that is under way."""

PART = "noise_scale"
SENTENCE = "exponential moving average"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    gradient_sq = noise_trace = None
    for small, big in zip(small_norms_sq, big_norms_sq, strict=True):
        gradient = (big_batch * big - small_batch * small) / (big_batch - small_batch)
        trace = (small - big) / (1 / small_batch - 1 / big_batch)
        gradient_sq = gradient if gradient_sq is None else 0.9 * gradient_sq + 0.1 * gradient
        noise_trace = trace if noise_trace is None else 0.9 * noise_trace + 0.1 * trace
    known = gradient_sq > 0 and noise_trace >= 0
    return gradient_sq, noise_trace, noise_trace / gradient_sq if known else None
