"""No return."""

from statistics import mean

PART = "noise_scale"
SENTENCE = "The function returns None"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = mean(small_norms_sq), mean(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    print(gradient_sq)
