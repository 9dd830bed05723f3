"""Waits, but too late."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "What is received is read before it has arrived"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous().clone()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            handle = dist.irecv(buffer, 0)
            tensor.copy_(buffer)
            handle.wait()
