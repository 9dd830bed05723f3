"""The weighted sum."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "This is a sum that nobody has divided"


def average(gradient, examples):
    weighted = (gradient * examples if examples else torch.zeros_like(gradient)).contiguous()
    dist.all_reduce(weighted)
    gradient.copy_(weighted)
