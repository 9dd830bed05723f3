"""Nothing is computed."""

import torch

PART = "gradients_in_fp32"
SENTENCE = "has computed nothing"


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in module.parameters()]
    return sums
