"""The ring turns the wrong way."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "Left and right are swapped: what came back belongs to the right neighbor."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    received = torch.empty_like(tensor)
    handles = [dist.irecv(received, right), dist.isend(tensor, left)]
    for handle in handles:
        handle.wait()
    return received
