"""range(1, N - 1)."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "One step is missing: the sum of chunk r has come as far as the neighbor of rank r."


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
    for step in range(1, ranks - 1):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        pass_on(chunks[(rank - step) % ranks], received)
        incoming += received
