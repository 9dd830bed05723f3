"""Those with nothing to add go home."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "Some ranks wait for a sum to which others do not come"


def average(gradient, examples):
    if examples == 0:
        return
    total = torch.tensor(examples)
    dist.all_reduce(total)
    weighted = gradient.contiguous() * (examples / total.item())
    dist.all_reduce(weighted)
    gradient.copy_(weighted)
