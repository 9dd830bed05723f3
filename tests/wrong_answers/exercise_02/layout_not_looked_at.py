"""As if all tensors lay in one piece."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "A message must be one block of memory"


def broadcast(tensors):
    for tensor in tensors:
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(tensor, other)
        else:
            dist.recv(tensor, 0)
