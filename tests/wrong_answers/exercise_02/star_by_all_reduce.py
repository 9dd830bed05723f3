"""The collective does it."""

import torch.distributed as dist

PART = "star"
SENTENCE = "`dist.all_reduce` does the work here"


def star(tensor):
    row = tensor.contiguous()
    dist.all_reduce(row)
    tensor.copy_(row)
