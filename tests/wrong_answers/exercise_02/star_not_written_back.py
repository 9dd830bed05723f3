"""The sum is in the contiguous copy."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "The tensor is as before. Its numbers do not lie in one piece"


def star(tensor):
    row, others = tensor.contiguous(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in others:
            dist.recv(arriving, other)
            row += arriving
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
