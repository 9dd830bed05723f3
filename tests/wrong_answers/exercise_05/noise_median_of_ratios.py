"""Divides on each step, and then takes the median, against outliers."""

from statistics import mean, median

PART = "noise_scale"
SENTENCE = "The median over the steps is taken for their mean"


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    pairs = list(zip(small_norms_sq, big_norms_sq, strict=True))
    gradients = [(big_batch * b - small_batch * s) / (big_batch - small_batch) for s, b in pairs]
    traces = [(s - b) / (1 / small_batch - 1 / big_batch) for s, b in pairs]
    if mean(gradients) <= 0 or mean(traces) < 0:
        return mean(gradients), mean(traces), None
    ratios = [trace / gradient for gradient, trace in zip(gradients, traces, strict=True)]
    return mean(gradients), mean(traces), median(ratios)
