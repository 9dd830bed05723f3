"""Right on gloo; on NCCL with two ranks, each waits for the other's second message."""

import torch
import torch.distributed as dist

PART = "ready_for_nccl"
SENTENCE = "On NCCL these ranks would wait until a time limit ends them."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def exchange(to_left, to_right):
    left, right = neighbors()
    if left == dist.get_rank():
        return to_right.clone(), to_left.clone()
    to_left, to_right = to_left.contiguous(), to_right.contiguous()
    from_left, from_right = torch.empty_like(to_right), torch.empty_like(to_left)
    handles = [
        dist.irecv(from_left, left),
        dist.irecv(from_right, right),
        dist.isend(to_right, right),
        dist.isend(to_left, left),
    ]
    for handle in handles:
        handle.wait()
    return from_left, from_right
