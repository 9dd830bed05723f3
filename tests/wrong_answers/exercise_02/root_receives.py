"""Rank 0 receives, too."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "Deadlock: every rank waits for a message, and nobody has sent one."


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        for other in range(1, dist.get_world_size()):
            if dist.get_rank() == other:
                dist.recv(buffer, 0)
                tensor.copy_(buffer)
            else:
                dist.recv(buffer, other)
