"""SUM without division."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "This is a sum that nobody has divided"


def average(gradient, examples):
    total = torch.nan_to_num(gradient).contiguous()
    dist.all_reduce(total)
    gradient.copy_(total)
