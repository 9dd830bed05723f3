"""Keeps the gradients of all micro-batches as they are, and stacks them at the end."""

import torch

PART = "gradients_in_fp32"
SENTENCE = "K times the gradients' memory"


def gradients_in_fp32(module, micro_batches, loss_function):
    kept = []
    for inputs, targets in micro_batches:
        kept.append(torch.autograd.grad(loss_function(module(inputs), targets), list(module.parameters())))
    return [torch.stack(of_one).float().mean(dim=0) for of_one in zip(*kept, strict=True)]
