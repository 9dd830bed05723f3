"""Returns while messages are still on their way."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "The function returns while a message may still be on its way out"


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    for step in range(1, ranks):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        receiving = dist.irecv(received, (rank - 1) % ranks)
        dist.isend(chunks[(rank - step) % ranks], (rank + 1) % ranks)
        receiving.wait()
        incoming += received
