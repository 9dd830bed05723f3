"""One backward through K losses, each of whose gradients is added up."""

import torch

PART = "gradients_in_fp32"
SENTENCE = "that is the memory of the large batch"


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in module.parameters()]
    losses = [loss_function(module(inputs), targets) for inputs, targets in micro_batches]
    for loss in losses:
        (loss / len(micro_batches)).backward()
        for parameter, summed in zip(module.parameters(), sums, strict=True):
            summed += parameter.grad
            parameter.grad = None
    return sums
