"""As if all tensors lay in one piece."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "A message must be one block of memory"


def star(tensor):
    others = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(tensor)
        for other in others:
            dist.recv(arriving, other)
            tensor += arriving
        for other in others:
            dist.send(tensor, other)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
