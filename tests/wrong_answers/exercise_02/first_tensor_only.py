"""A return inside the loop."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "Only the first of the tensors has come"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, 0)
            tensor.copy_(buffer)
        return
