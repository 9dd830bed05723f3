"""The sum is made in the buffer that is still being sent."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "A tensor is changed while it is being sent"


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    length = len(chunks[0])

    def filled(chunk):  # all of one length
        return torch.nn.functional.pad(chunk, (0, length - len(chunk)))

    passing = filled(chunks[(rank - 1) % ranks])
    for step in range(1, ranks):
        received = torch.empty_like(passing)
        receiving = dist.irecv(received, (rank - 1) % ranks)
        sending = dist.isend(passing, (rank + 1) % ranks)
        receiving.wait()
        torch.add(received, filled(chunks[(rank - 1 - step) % ranks]), out=passing)
        sending.wait()
    chunks[rank].copy_(passing[: len(chunks[rank])])
