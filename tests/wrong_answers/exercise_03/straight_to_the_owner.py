"""Each chunk goes straight to its owner: as many bytes, and not a ring."""

import torch
import torch.distributed as dist

PART = "reduce_scatter"
SENTENCE = "Messages go to ranks that are no neighbors."


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    others = [other for other in range(ranks) if other != rank]
    received = {other: torch.empty_like(chunks[rank]) for other in others}
    operations = [dist.P2POp(dist.irecv, received[other], other) for other in others]
    operations += [dist.P2POp(dist.isend, chunks[other], other) for other in others]
    for handle in dist.batch_isend_irecv(operations) if others else []:
        handle.wait()
    for other in others:
        chunks[rank].add_(received[other])
