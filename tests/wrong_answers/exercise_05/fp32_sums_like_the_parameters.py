"""zeros_like has the parameter's dtype."""

import torch

PART = "gradients_in_fp32"
SENTENCE = "made in bfloat16, and turned into float32 too late"


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = [torch.zeros_like(parameter) for parameter in module.parameters()]
    for inputs, targets in micro_batches:
        loss_function(module(inputs), targets).backward()
        for parameter, summed in zip(module.parameters(), sums, strict=True):
            summed += parameter.grad
            parameter.grad = None
    return [summed.float() / len(micro_batches) for summed in sums]
