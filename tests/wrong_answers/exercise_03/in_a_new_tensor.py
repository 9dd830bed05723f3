"""The sum is returned, and the tensor is as it was."""

import torch
import torch.distributed as dist

PART = "ring"
SENTENCE = "The result is returned in a new tensor"


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
    for step in range(ranks - 1):
        pass_on(chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks])


def ring(tensor):
    row = tensor.clone(memory_format=torch.contiguous_format).view(-1)
    reduce_scatter(row)
    all_gather(row)
    return row.view(tensor.shape)
