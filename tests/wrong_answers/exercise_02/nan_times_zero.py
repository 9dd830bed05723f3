"""The weight 0 is thought to be enough."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "One rank has no examples, and its gradient is nan"


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    weighted = gradient.contiguous() * (examples / total.item())
    dist.all_reduce(weighted)
    gradient.copy_(weighted)
