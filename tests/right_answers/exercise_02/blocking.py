"""send and recv, one after another."""

import torch
import torch.distributed as dist


def broadcast(tensors):
    for tensor in tensors:
        row = tensor.contiguous()
        if dist.get_rank() == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(row, other)
        else:
            dist.recv(row, 0)
            tensor.copy_(row)


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    weighted = gradient.contiguous() * (examples / total.item()) if examples else torch.zeros(gradient.shape)
    weighted = weighted.to(gradient.dtype)
    dist.all_reduce(weighted)
    gradient.copy_(weighted)


def star(tensor):
    row = tensor.contiguous()
    others = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in others:
            dist.recv(arriving, other)
            row += arriving
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    if row is not tensor:
        tensor.copy_(row)
