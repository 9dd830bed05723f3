"""Twice the bytes."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "rank 0's link does not carry 2 (N-1) S bytes"


def star(tensor):
    dtype = torch.float64 if tensor.is_floating_point() else torch.int64
    row, others = tensor.to(dtype).contiguous().clone(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in others:
            dist.recv(arriving, other)
            row += arriving
        row = row.to(tensor.dtype)
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        row = row.to(tensor.dtype)
        dist.recv(row, 0)
    tensor.copy_(row)
