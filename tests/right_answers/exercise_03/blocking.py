"""send and recv: even ranks send first, odd ones receive first; also with an odd number of ranks."""

import torch
import torch.distributed as dist


def chunk_to_send(rank, step, ranks):
    return (rank - step) % ranks


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 0:
        dist.send(outgoing, (rank + 1) % ranks)
        dist.recv(incoming, (rank - 1) % ranks)
    else:
        dist.recv(incoming, (rank - 1) % ranks)
        dist.send(outgoing, (rank + 1) % ranks)


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
    row = tensor.reshape(-1).clone()
    reduce_scatter(row)
    all_gather(row)
    tensor[...] = row.reshape(tensor.shape)
