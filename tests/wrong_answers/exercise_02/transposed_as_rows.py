"""Reads the memory of a transposed tensor."""

import torch.distributed as dist

PART = "broadcast"
SENTENCE = "The right numbers have arrived in another order"


def broadcast(tensors):
    for tensor in tensors:
        buffer = tensor.contiguous() if tensor.is_contiguous() else tensor.T.contiguous().clone()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(buffer, other)
        else:
            dist.recv(buffer, 0)
            tensor.copy_(buffer.reshape(tensor.shape))
