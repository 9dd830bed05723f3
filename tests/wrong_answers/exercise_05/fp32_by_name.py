"""A dict."""

import torch

PART = "gradients_in_fp32"
SENTENCE = "A list of tensors is expected"


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = {name: torch.zeros_like(each, dtype=torch.float32) for name, each in module.named_parameters()}
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
        for name, parameter in module.named_parameters():
            sums[name] += parameter.grad
            parameter.grad = None
    return sums
