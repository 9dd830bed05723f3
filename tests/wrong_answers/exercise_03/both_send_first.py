"""Pitfall 3: every rank stands in a blocking send."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "Deadlock: every rank waits until its message is received"


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.send(outgoing, (rank + 1) % ranks)
    dist.recv(incoming, (rank - 1) % ranks)


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    for step in range(1, ranks):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        pass_on(chunks[(rank - step) % ranks], received)
        incoming += received
