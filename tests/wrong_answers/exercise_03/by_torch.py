"""torch's own all_reduce does the work."""

import torch.distributed as dist

PART = "ring"
SENTENCE = "`dist.all_reduce` does the work here"


def ring(tensor):
    dist.all_reduce(tensor)
