"""The others keep their own."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "Only rank 0 has the sum."


def star(tensor):
    row, others = tensor.contiguous(), range(1, dist.get_world_size())
    arriving = torch.empty_like(row)
    if dist.get_rank() == 0:
        for other in others:
            dist.recv(arriving, other)
            row += arriving
        for other in others:
            dist.send(row, other)
        tensor.copy_(row)
    else:
        dist.send(row, 0)
        dist.recv(arriving, 0)
        tensor = arriving
