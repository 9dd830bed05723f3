"""Keeps passing on, without end."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "The function comes to no end: it needs one that each rank reaches."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    while True:
        received = torch.empty_like(tensor)
        handle = dist.irecv(received, left)
        dist.isend(tensor, right).wait()
        handle.wait()
        tensor = received
