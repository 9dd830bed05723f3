"""Pitfall 6: sends right then left, receives right then left; with N=2 they cross."""

import torch
import torch.distributed as dist

PART = "exchange"
SENTENCE = "nothing but their order tells which is which"


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
        dist.P2POp(dist.isend, to_right, right),
        dist.P2POp(dist.isend, to_left, left),
        dist.P2POp(dist.irecv, from_right, right),
        dist.P2POp(dist.irecv, from_left, left),
    ]

    for handle in dist.batch_isend_irecv(operations):
        handle.wait()
    return from_left, from_right
