"""Before the sum and after it."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "This is divided twice"


def average(gradient, examples):
    mean = torch.nan_to_num(gradient).contiguous() / dist.get_world_size()
    dist.all_reduce(mean)
    gradient.copy_(mean / dist.get_world_size())
