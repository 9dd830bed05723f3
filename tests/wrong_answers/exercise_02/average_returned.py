"""In a new tensor."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "The right result is returned, and what was given is as before"


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    share = examples / total.item()
    weighted = (gradient * share if examples else torch.zeros_like(gradient)).contiguous()
    dist.all_reduce(weighted)
    return weighted
