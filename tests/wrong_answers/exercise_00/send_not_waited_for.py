"""Returns while the message may still be on its way."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "The function returns while a message may still be on its way out"


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    received = torch.empty_like(tensor)
    dist.isend(tensor, right)
    dist.recv(received, left)
    return received
