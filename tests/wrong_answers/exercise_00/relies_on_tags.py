"""Pitfall 6: tags tell the two messages apart, until NCCL ignores them."""

import torch
import torch.distributed as dist

PART = "ready_for_nccl"
SENTENCE = "This relies on `tag` to tell messages apart, and NCCL has no tags: only their order counts."


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
        dist.P2POp(dist.isend, to_right, right, tag=1),
        dist.P2POp(dist.isend, to_left, left, tag=2),
        dist.P2POp(dist.irecv, from_right, right, tag=2),
        dist.P2POp(dist.irecv, from_left, left, tag=1),
    ]

    for handle in dist.batch_isend_irecv(operations):
        handle.wait()
    return from_left, from_right
