"""range(1, N - 1)."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "The last rank's tensor is missing in the sum"


def star(tensor):
    row, last = tensor.contiguous().clone(), dist.get_world_size() - 1
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in range(1, last):
            dist.recv(arriving, other)
            row += arriving
        for other in range(1, last + 1):
            dist.send(row, other)
    else:
        if dist.get_rank() < last:
            dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
