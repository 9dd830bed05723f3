"""Sends `to_left` to the right."""

import torch
import torch.distributed as dist

PART = "exchange"
SENTENCE = "`to_left` has gone to the right neighbor, and `to_right` to the left one."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def exchange(to_left, to_right):
    left, right = neighbors()
    if left == dist.get_rank():
        return to_right.clone(), to_left.clone()
    to_left, to_right = to_left.contiguous(), to_right.contiguous()
    from_left, from_right = torch.empty_like(to_right), torch.empty_like(to_left)
    operations = [
        dist.P2POp(dist.isend, to_left, right),
        dist.P2POp(dist.isend, to_right, left),
        dist.P2POp(dist.irecv, from_left, left),
        dist.P2POp(dist.irecv, from_right, right),
    ]

    for handle in dist.batch_isend_irecv(operations):
        handle.wait()
    return from_left, from_right
