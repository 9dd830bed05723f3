"""Rank 0 adds its own tensor in place of what arrives."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "All have rank 0's tensor, so many times"


def star(tensor):
    row, others = tensor.contiguous().clone(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        own = row.clone()
        for other in others:
            dist.recv(arriving, other)
            row += own
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
