"""The chunks are replaced in a list, and the row stays as it was."""

import torch
import torch.distributed as dist

PART = "all_gather"
SENTENCE = "The tensor is as before: what arrives has no effect on it."


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    messages = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(messages):
        handle.wait()


def all_gather(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = list(row.tensor_split(ranks))
    for step in range(ranks - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % ranks])
        pass_on(chunks[(rank - step) % ranks], received)
        chunks[(rank - step - 1) % ranks] = received
