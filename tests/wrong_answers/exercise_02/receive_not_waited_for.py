"""irecv without wait."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "What is received is used before it has arrived: nobody waits"


def broadcast(tensors):
    handles = []
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            handles.append(dist.irecv(buffer, 0))
            tensor.copy_(buffer)
