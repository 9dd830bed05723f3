"""Pitfall 6: all receives of the second half are posted at the start, in another order than the sends."""

import torch
import torch.distributed as dist

PART = "ready_for_nccl"
SENTENCE = "This relies on `tag` to tell messages apart, and NCCL has no tags: only their order counts."


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
    for step in range(1, ranks):
        incoming = chunks[(rank - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        pass_on(chunks[(rank - step) % ranks], received)
        incoming += received


def all_gather(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    halves = [chunk.tensor_split(2) for chunk in chunks]
    for step in range(ranks - 1):
        outgoing, incoming = halves[(rank - step) % ranks], halves[(rank - step - 1) % ranks]
        messages = [
            *(dist.P2POp(dist.irecv, incoming[i], (rank - 1) % ranks, tag=i) for i in (0, 1)),
            *(dist.P2POp(dist.isend, outgoing[i], (rank + 1) % ranks, tag=i) for i in (1, 0)),
        ]
        for handle in dist.batch_isend_irecv(messages):
            handle.wait()


def ring(tensor):
    row = tensor.contiguous().view(-1)
    reduce_scatter(row)
    all_gather(row)
    tensor.copy_(row.view(tensor.shape))
