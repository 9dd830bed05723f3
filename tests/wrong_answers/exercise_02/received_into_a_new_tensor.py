"""The name is given to another tensor."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "What was given is as before. `tensor = …` gives the name to another"


def broadcast(tensors):
    for tensor in tensors:
        received = tensor.contiguous().clone()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(received, other)
        else:
            dist.recv(received, 0)
            tensor = received
