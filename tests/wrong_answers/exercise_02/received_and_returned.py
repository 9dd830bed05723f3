"""Returned, not put in place."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "The right result is returned, and what was given is as before"


def broadcast(tensors):
    buffers = [tensor.contiguous().clone() for tensor in tensors]
    for buffer in buffers:
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, 0)
    return buffers
