"""Pitfall 4: with one rank it sends to itself."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "A rank can't send a message to itself. What does one rank alone need?"


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    tensor = tensor.contiguous()
    received = torch.empty_like(tensor)
    handle = dist.irecv(received, left)
    dist.isend(tensor, right).wait()
    handle.wait()
    return received
