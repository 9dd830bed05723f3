"""Pitfall 2, PyTorch's tutorial made right: whole tensors go around."""

import torch
import torch.distributed as dist

PART = "ring"
SENTENCE = "Whole tensors go around"


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    messages = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(messages):
        handle.wait()


def ring(tensor):
    total = tensor.clone(memory_format=torch.contiguous_format)
    passing, arriving = total.clone(), torch.empty_like(total)
    for _ in range(dist.get_world_size() - 1):
        pass_on(passing, arriving)
        total += arriving
        passing, arriving = arriving, passing
    tensor.copy_(total)
