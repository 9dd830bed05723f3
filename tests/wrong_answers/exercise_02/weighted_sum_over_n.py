"""By N."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "The weighted sum is divided by the number of ranks"


def average(gradient, examples):
    weighted = (gradient * examples if examples else torch.zeros_like(gradient)).contiguous()
    weighted /= dist.get_world_size()
    dist.all_reduce(weighted)
    gradient.copy_(weighted)
