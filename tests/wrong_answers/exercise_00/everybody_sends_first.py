"""Pitfall 3: all ranks send first, and nobody receives."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "Deadlock: every rank waits until its message is received, and nobody has come to receive."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    received = torch.empty_like(tensor)
    dist.send(tensor, right)
    dist.recv(received, left)
    return received
