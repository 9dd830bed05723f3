"""Large integers lose digits."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "The numbers are near, but digits are lost"


def star(tensor):
    row, others = tensor.float().contiguous(), range(1, dist.get_world_size())
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
    tensor.copy_(row)
