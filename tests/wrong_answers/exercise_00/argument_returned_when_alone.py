"""With one rank the argument itself is returned."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "What is returned is the argument itself, no copy: a change of one would change the other."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor
    tensor = tensor.contiguous()
    received = torch.empty_like(tensor)
    handle = dist.irecv(received, left)
    dist.isend(tensor, right).wait()
    handle.wait()
    return received
