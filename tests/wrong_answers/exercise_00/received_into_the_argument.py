"""The argument is the receive buffer as well."""

import torch.distributed as dist

PART = "pass_right"
SENTENCE = "The function alters the tensor that it is given: what arrives needs a place of its own."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    copy = tensor.contiguous().clone()
    handle = dist.isend(copy, right)
    received = copy.clone()
    dist.recv(received, left)
    handle.wait()
    tensor.copy_(received)
    return received
