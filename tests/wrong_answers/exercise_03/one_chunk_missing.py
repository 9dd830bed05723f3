"""range(N - 2)."""

import torch.distributed as dist

PART = "all_gather"
SENTENCE = "One step is missing: each rank still lacks one complete chunk."


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
    chunks = row.tensor_split(ranks)
    for step in range(ranks - 2):
        pass_on(chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks])
