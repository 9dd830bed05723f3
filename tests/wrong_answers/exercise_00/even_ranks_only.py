"""Even ranks send first, odd ranks receive first: with odd N two even ranks are neighbors."""

import torch
import torch.distributed as dist

PART = "exchange"
SENTENCE = "It works only for an even number of ranks."
MOST_RANKS = 5  # fewer do not tell it from another mistake


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def exchange(to_left, to_right):
    left, right = neighbors()
    if left == dist.get_rank():
        return to_right.clone(), to_left.clone()
    to_left, to_right = to_left.contiguous(), to_right.contiguous()
    from_left, from_right = torch.empty_like(to_right), torch.empty_like(to_left)
    if dist.get_rank() % 2 == 0:
        dist.send(to_right, right)
        dist.recv(from_right, right)
        dist.send(to_left, left)
        dist.recv(from_left, left)
    else:
        dist.recv(from_left, left)
        dist.send(to_left, left)
        dist.recv(from_right, right)
        dist.send(to_right, right)
    return from_left, from_right
