"""Chunks of numel // N elements, and the rest in the last one: not those of tensor_split."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "Most elements are right, and those at the ends of chunks are not."


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    messages = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(messages):
        handle.wait()


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    length = len(row) // ranks
    chunks = row.tensor_split([length * chunk for chunk in range(1, ranks)])
    for step in range(1, ranks):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        pass_on(chunks[(rank - step) % ranks], received)
        incoming += received
