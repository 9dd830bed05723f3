"""Pitfall 5: a transposed tensor is no block of memory."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "A message must be one block of memory, and this tensor's numbers do not lie in one piece."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    received = torch.empty_like(tensor)
    handle = dist.irecv(received, left)
    dist.isend(tensor, right).wait()
    handle.wait()
    return received
