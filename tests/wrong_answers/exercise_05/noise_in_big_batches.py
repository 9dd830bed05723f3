"""Says how many big batches the noise scale is."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "The noise scale is divided by a batch size."


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = mean(small_norms_sq), mean(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    if gradient_sq <= 0 or noise_trace < 0:
        return gradient_sq, noise_trace, None
    return gradient_sq, noise_trace, noise_trace / gradient_sq / big_batch
