"""isend and irecv, waited for by hand; rank 0 breaks the circle; results in one tensor, as a list."""

import torch
from torch.distributed import get_rank, get_world_size, irecv, isend


def neighbors(rank, ranks):
    ring = list(range(ranks))
    return [ring[rank - 1], ring[(rank + 1) % ranks]]


def move(tensor, received, source, target):
    def send():
        return isend(tensor.contiguous(), target)

    def receive():
        return irecv(received, source)

    first, second = (receive, send) if get_rank() == 0 else (send, receive)
    handles = [first(), second()]
    while handles:
        handles.pop().wait()


def pass_right(tensor):
    if get_world_size() == 1:
        return torch.clone(tensor)
    received = torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    left, right = neighbors(get_rank(), get_world_size())
    move(tensor, received, left, right)
    return received


def exchange(to_left, to_right):
    both = torch.stack([to_right, to_left])
    if get_world_size() > 1:
        left, right = neighbors(get_rank(), get_world_size())
        move(to_right, both[0], left, right)
        move(to_left, both[1], right, left)
    return [both[0], both[1]]
