"""isend without wait."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "The function returns while a message may still be on its way out"


KEPT = []


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                KEPT.append((buffer, dist.isend(buffer, other)))
        else:
            dist.recv(buffer, 0)
            tensor.copy_(buffer)
