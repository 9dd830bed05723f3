"""The ring is not closed: the last rank and rank 0 do not exchange."""

import torch
import torch.distributed as dist

PART = "exchange"
SENTENCE = "Only the ring's ends are wrong: rank 0 and rank N - 1 are neighbors of each other."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def exchange(to_left, to_right):
    left, right = neighbors()
    if left == dist.get_rank():
        return to_right.clone(), to_left.clone()
    to_left, to_right = to_left.contiguous(), to_right.contiguous()
    from_left, from_right = torch.empty_like(to_right), torch.empty_like(to_left)
    from_left, from_right = to_left.clone(), to_right.clone()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 2:
        operations = [
            dist.P2POp(dist.isend, to_right, right),
            dist.P2POp(dist.isend, to_left, left),
            dist.P2POp(dist.irecv, from_left, left),
            dist.P2POp(dist.irecv, from_right, right),
        ]
    else:
        operations = []
        if rank > 0:
            operations += [dist.P2POp(dist.isend, to_left, left), dist.P2POp(dist.irecv, from_left, left)]
        if rank < ranks - 1:
            operations += [dist.P2POp(dist.isend, to_right, right), dist.P2POp(dist.irecv, from_right, right)]

    for handle in dist.batch_isend_irecv(operations):
        handle.wait()
    return from_left, from_right
