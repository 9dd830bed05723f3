"""Chunks go around as they are, and each rank adds them in the order in which they come."""

import torch
import torch.distributed as dist

PART = "ring"
SENTENCE = "the ranks' last bits differ"


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    messages = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(messages):
        handle.wait()


def ring(tensor):
    ranks = dist.get_world_size()
    row = tensor.contiguous().view(-1)
    own = row.clone()
    for total, passing in zip(row.tensor_split(ranks), own.tensor_split(ranks), strict=True):
        for _ in range(ranks - 1):
            received = torch.empty_like(passing)
            pass_on(passing, received)
            total += received
            passing = received
    tensor.copy_(row.view(tensor.shape))
