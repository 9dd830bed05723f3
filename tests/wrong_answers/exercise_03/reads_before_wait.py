"""The receive buffer is added before wait()."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "What is received is read before it has arrived"


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    for step in range(1, ranks):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        receiving = dist.irecv(received, (rank - 1) % ranks)
        dist.isend(chunks[(rank - step) % ranks], (rank + 1) % ranks).wait()
        incoming += received
        receiving.wait()
