"""Reads the buffer of irecv before wait()."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "What is received is used before it has arrived: nobody waits for irecv's handle."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    received = torch.zeros_like(tensor)
    dist.irecv(received, left)
    dist.isend(tensor, right).wait()
    return received
