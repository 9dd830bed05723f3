"""The last rank sends to nobody."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "Some ranks have returned, and others still wait for them: count the sends and the receives."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    received = torch.empty_like(tensor)
    handle = dist.irecv(received, left)
    if right != 0:
        dist.isend(tensor, right).wait()
    handle.wait()
    return received
