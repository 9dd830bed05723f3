"""Only what came last is added."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "Only the tensor that came last is in the sum"


def star(tensor):
    row, others = tensor.contiguous().clone(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.zeros_like(row)
        for other in others:
            dist.recv(arriving, other)
        row += arriving
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
