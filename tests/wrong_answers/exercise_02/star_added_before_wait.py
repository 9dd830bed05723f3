"""Reads the buffer before wait()."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "What is received is read before it has arrived"


def star(tensor):
    row, others = tensor.contiguous().clone(), range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arriving = torch.empty_like(row)
        for other in others:
            handle = dist.irecv(arriving, other)
            row += arriving
            handle.wait()
        for other in others:
            dist.send(row, other)
    else:
        dist.send(row, 0)
        dist.recv(row, 0)
    tensor.copy_(row)
