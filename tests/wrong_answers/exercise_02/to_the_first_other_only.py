"""Written for two ranks."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "Some ranks have returned, and others still wait for them"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_rank() == 0:
            if dist.get_world_size() > 1:
                dist.send(buffer, 1)
        else:
            dist.recv(buffer, 0)
            tensor.copy_(buffer)
