"""Another rank is the root."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "All ranks have the same, but it is another rank's"


def broadcast(tensors):
    root = dist.get_world_size() - 1
    for tensor in tensors:
        buffer = tensor.contiguous()
        if dist.get_rank() == root:
            for other in range(root):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, root)
            tensor.copy_(buffer)
