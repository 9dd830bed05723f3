"""Pitfall 8: by the number of elements."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "This is divided by the number of the tensor's elements"


def average(gradient, examples):
    weighted = (gradient * examples if examples else torch.zeros_like(gradient)).contiguous()
    dist.all_reduce(weighted)
    gradient.copy_(weighted / gradient.numel())
