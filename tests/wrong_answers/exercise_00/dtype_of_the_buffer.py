"""The receive buffer is float32, whatever arrives."""

import torch
import torch.distributed as dist

PART = "pass_right"
SENTENCE = "A receiver must expect as many numbers, of the same dtype, as its sender sends."


def neighbors():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % ranks, (rank + 1) % ranks


def pass_right(tensor):
    left, right = neighbors()
    if left == dist.get_rank():
        return tensor.clone()
    tensor = tensor.contiguous()
    received = torch.empty(tensor.shape)
    handle = dist.irecv(received, left)
    dist.isend(tensor, right).wait()
    handle.wait()
    return received
