"""Received into the contiguous copy."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "The tensor is as before. Its numbers do not lie in one piece"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()  # the tensor itself, where it is contiguous
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, 0)
