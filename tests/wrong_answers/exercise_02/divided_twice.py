"""By all examples, and by N."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "This is divided twice"


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    share = examples / total.item()
    weighted = (gradient * share if examples else torch.zeros_like(gradient)).contiguous()
    dist.all_reduce(weighted)
    gradient.copy_(weighted / dist.get_world_size())
