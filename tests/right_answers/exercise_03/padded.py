"""Filled up with zeros to N chunks of equal length, a row of a matrix each; empty rows are left out."""

import torch
import torch.distributed as dist


def chunk_to_send(rank, step, ranks):
    return (rank - step) % ranks


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    messages = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(messages):
        handle.wait()


def filled(row):
    """N rows of equal length, in new memory."""
    ranks = dist.get_world_size()
    length = -(-len(row) // ranks)
    table = torch.zeros(ranks * length, dtype=row.dtype)
    table[: len(row)] = row
    return torch.chunk(table, ranks) if length else [table] * ranks


def around(chunks, first, adds):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in range(ranks - 1 if len(chunks[0]) else 0):
        incoming = chunks[(rank + first - 1 - step) % ranks]
        received = torch.empty_like(incoming)
        pass_on(chunks[(rank + first - step) % ranks], received)
        incoming.copy_(incoming + received if adds else received)


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = row.tensor_split(ranks)
    longest = len(chunks[0])
    rows = [torch.cat([chunk, torch.zeros(longest - len(chunk), dtype=row.dtype)]) for chunk in chunks]
    around(rows, -1, True)
    chunks[rank].copy_(rows[rank][: len(chunks[rank])])


def all_gather(row):
    chunks = row.tensor_split(dist.get_world_size())
    longest = len(chunks[0])
    rows = [torch.cat([chunk, torch.zeros(longest - len(chunk), dtype=row.dtype)]) for chunk in chunks]
    around(rows, 0, False)
    for chunk, full in zip(chunks, rows, strict=True):
        chunk.copy_(full[: len(chunk)])


def ring(tensor):
    chunks = filled(tensor.flatten())
    around(chunks, 0, True)  # ends with chunk r + 1 on rank r
    around(chunks, 1, False)
    tensor.copy_(torch.cat(list(chunks))[: tensor.numel()].view(tensor.shape))
