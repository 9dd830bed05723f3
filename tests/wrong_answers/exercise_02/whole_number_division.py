"""// for /."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "All numbers are 0: is something divided as whole numbers"


def average(gradient, examples):
    total = torch.tensor(examples + 1)
    dist.all_reduce(total)
    weighted = torch.nan_to_num(gradient).contiguous() * (examples // total.item())
    dist.all_reduce(weighted)
    gradient.copy_(weighted)
