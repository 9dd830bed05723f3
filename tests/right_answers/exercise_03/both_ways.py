"""Half of each chunk goes around to the right, the other half to the left."""

import torch
import torch.distributed as dist


def chunk_to_send(rank, step, ranks):
    return (rank - step) % ranks


def step_both_ways(to_right, from_left, to_left, from_right):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    messages = [
        (dist.irecv, from_left, left),
        (dist.isend, to_right, right),
        (dist.isend, to_left, left),
        (dist.irecv, from_right, right),
    ]
    if rank % 2 == 0 and ranks == 2:  # messages of two ranks are told apart by their order
        messages = messages[:2] + messages[3:] + messages[2:3]
    messages = [dist.P2POp(kind, tensor, peer) for kind, tensor, peer in messages if tensor.numel()]
    for handle in dist.batch_isend_irecv(messages) if messages else []:
        handle.wait()


def cut(row):
    ranks = dist.get_world_size()
    halves = [chunk.tensor_split(2) for chunk in row.tensor_split(ranks)]
    return [half[0] for half in halves], [half[1] for half in halves]


def reduce_scatter(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    rightward, leftward = cut(row)
    for step in range(1, ranks):
        into = rightward[(rank - 1 - step) % ranks], leftward[(rank + 1 + step) % ranks]
        received = [torch.empty_like(chunk) for chunk in into]
        step_both_ways(
            rightward[(rank - step) % ranks], received[0], leftward[(rank + step) % ranks], received[1]
        )
        for chunk, arrived in zip(into, received, strict=True):
            chunk += arrived


def all_gather(row):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    rightward, leftward = cut(row)
    for step in range(ranks - 1):
        step_both_ways(
            rightward[(rank - step) % ranks], rightward[(rank - step - 1) % ranks],
            leftward[(rank + step) % ranks], leftward[(rank + step + 1) % ranks],
        )  # fmt: skip


def ring(tensor):
    row = tensor.contiguous().view(-1)
    reduce_scatter(row)
    all_gather(row)
    tensor.copy_(row.view(tensor.shape))
