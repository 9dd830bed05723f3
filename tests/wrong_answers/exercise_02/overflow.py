"""Multiplied by the examples before it is divided."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "Numbers have become infinite: float16 ends at 65,504."


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    weighted = (gradient * examples if examples else torch.zeros_like(gradient)).contiguous()
    dist.all_reduce(weighted)
    gradient.copy_(weighted / total)
