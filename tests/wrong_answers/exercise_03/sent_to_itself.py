"""Pitfall 4: one rank alone sends to itself."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "A rank can't send a message to itself."


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
    chunks = row.tensor_split(ranks)
    for step in range(1, max(2, ranks)):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        pass_on(chunks[(rank - step) % ranks], received)
        incoming += received
