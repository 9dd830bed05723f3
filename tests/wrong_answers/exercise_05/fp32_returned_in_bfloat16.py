"""Summed well, and then rounded."""

import torch

PART = "gradients_in_fp32"
SENTENCE = "these are in bfloat16"


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in module.parameters()]
    for inputs, targets in micro_batches:
        loss_function(module(inputs), targets).backward()
        for parameter, summed in zip(module.parameters(), sums, strict=True):
            summed += parameter.grad
            parameter.grad = None
    return [(summed / len(micro_batches)).bfloat16() for summed in sums]
