"""The collective does it."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "`dist.broadcast` does the work here"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        dist.broadcast(buffer, src=0)
        tensor.copy_(buffer)
