"""Only rank 1 is known."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "Some ranks have returned, and others still wait for them"


def star(tensor):
    row = tensor.contiguous().clone()
    if dist.get_rank() == 0 and dist.get_world_size() > 1:
        arriving = torch.empty_like(row)
        dist.recv(arriving, 1)
        row += arriving
        dist.send(row, 1)
    elif dist.get_rank() > 0:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
