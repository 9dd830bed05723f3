"""All dtypes as float32."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "The numbers are near, but digits are lost"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.float().contiguous()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, 0)
            tensor.copy_(buffer)
