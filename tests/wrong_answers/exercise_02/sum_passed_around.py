"""A chain in place of a star."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "The sums are right, but not by a star"


def star(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    row = tensor.contiguous().clone()
    arriving = torch.empty_like(row)
    if rank + 1 < ranks:
        dist.recv(arriving, rank + 1)
        row += arriving
    if rank > 0:
        dist.send(row, rank - 1)
        dist.recv(row, rank - 1)
    if rank + 1 < ranks:
        dist.send(row, rank + 1)
    tensor.copy_(row)
