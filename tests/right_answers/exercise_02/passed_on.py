"""A broadcast that is passed on, an average without all_reduce, a star with handles."""

import torch
import torch.distributed as dist


def broadcast(tensors):
    """In rounds: whoever has the tensors hands them to one more rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for tensor in tensors:
        row = tensor.detach().contiguous()
        distance = 1
        while distance < ranks:
            if rank < distance and rank + distance < ranks:
                dist.send(row, rank + distance)
            elif distance <= rank < 2 * distance:
                dist.recv(row, rank - distance)
            distance *= 2
        if not tensor.is_contiguous():
            tensor.copy_(row)


def average(gradient, examples):
    """Rank by rank, all ranks' means by the number of their examples."""
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, (gradient.double().tolist() if examples else None, examples))
    total = sum(count for _, count in everybody)
    parts = [
        torch.tensor(mean, dtype=torch.float64) * (count / total) for mean, count in everybody if count
    ]
    gradient.copy_(sum(parts))


def star(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 1:
        return tensor
    if rank == 0:
        total = tensor.contiguous().clone()
        for other in range(1, ranks):
            arriving = torch.empty_like(total)
            dist.irecv(arriving, src=other).wait()
            total += arriving
        handles = [dist.isend(total, dst=other) for other in range(1, ranks)]
        for handle in handles:
            handle.wait()
    else:
        total = tensor.contiguous().clone()
        dist.isend(total, dst=0).wait()
        dist.irecv(total, src=0).wait()
    tensor[...] = total
    return tensor
