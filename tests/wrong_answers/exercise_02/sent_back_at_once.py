"""Each gets what has been added so far."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "Rank 0 sends back what it has added so far"
MOST_RANKS = 5  # fewer do not tell it from another mistake


def star(tensor):
    row, others = tensor.contiguous().clone(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in others:
            dist.recv(arriving, other)
            row += arriving
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
