"""All send to rank 0, which sends the sum back."""

import torch
import torch.distributed as dist

PART = "ring"
SENTENCE = "All messages go through rank 0: this is a star."


def ring(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = tensor.contiguous().clone()
    received = torch.empty_like(total)
    if rank:
        dist.send(total, 0)
        dist.recv(total, 0)
    else:
        for other in range(1, ranks):
            dist.recv(received, other)
            total += received
        for other in range(1, ranks):
            dist.send(total, other)
    tensor.copy_(total)
