"""Makes a transposed tensor a block of memory, but another one."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "The right numbers have arrived in another order"


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    block = tensor if tensor.is_contiguous() else tensor.T.contiguous()
    received = torch.empty_like(block)
    handle = dist.irecv(received, left)
    dist.isend(block, right).wait()
    handle.wait()
    return received.reshape(tensor.shape)
