"""Every rank counts the same."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "This is the mean of the ranks' means"


def average(gradient, examples):
    mean = torch.nan_to_num(gradient).contiguous() / dist.get_world_size()
    dist.all_reduce(mean)
    gradient.copy_(mean)
