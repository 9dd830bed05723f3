"""Only rank 1 takes part."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "Some ranks have rank 0's tensors, and others still have their own"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_world_size() > 1 and dist.get_rank() == 0:
            dist.send(buffer, 1)
        if dist.get_rank() == 1:
            dist.recv(buffer, 0)
            tensor.copy_(buffer)
