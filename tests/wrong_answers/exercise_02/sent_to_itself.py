"""Rank 0 sends to all, itself as well."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "A rank can't send a message to itself."


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_rank() == 0:
            for other in range(dist.get_world_size()):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, 0)
            tensor.copy_(buffer)
