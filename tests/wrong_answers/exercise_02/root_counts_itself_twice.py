"""The sum begins with rank 0's tensor, and adds it."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "Rank 0's own tensor is counted twice"


def star(tensor):
    row, others = tensor.contiguous().clone(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        own = row.clone()
        for other in others:
            dist.recv(arriving, other)
            row += arriving
        row += own
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
