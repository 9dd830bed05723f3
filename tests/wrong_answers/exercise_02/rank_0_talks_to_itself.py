"""range(N)."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "A rank can't send a message to itself."


def star(tensor):
    row, everybody = tensor.contiguous().clone(), range(dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in everybody:
            dist.recv(arriving, other)
            row += arriving
        for other in everybody:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
