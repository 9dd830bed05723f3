"""Everything posted at once, and waited for."""

import torch
import torch.distributed as dist


def finish(operations):
    for handle in dist.batch_isend_irecv(operations) if operations else []:
        handle.wait()


def broadcast(tensors):
    rows = [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors]
    if dist.get_rank() == 0:
        others = range(1, dist.get_world_size())
        finish([dist.P2POp(dist.isend, row, other) for row in rows for other in others])
    else:
        finish([dist.P2POp(dist.irecv, row, 0) for row in rows])
    for tensor, row in zip(tensors, rows, strict=True):
        tensor.copy_(row)


def average(gradient, examples):
    """In one all-reduce: the weighted sum, and behind it the number of examples."""
    own = torch.zeros(gradient.numel() + 1, dtype=torch.float64)
    if examples:
        own[:-1] = gradient.reshape(-1).double() * examples
    own[-1] = examples
    dist.all_reduce(own)
    gradient.copy_((own[:-1] / own[-1]).reshape(gradient.shape))


def star(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = tensor.clone(memory_format=torch.contiguous_format)
    if rank == 0:
        arriving = [torch.empty_like(own) for _ in range(1, ranks)]
        finish([dist.P2POp(dist.irecv, row, other) for other, row in enumerate(arriving, start=1)])
        for row in arriving:
            own.add_(row)
        finish([dist.P2POp(dist.isend, own, other) for other in range(1, ranks)])
    else:
        result = torch.empty_like(own)
        finish([dist.P2POp(dist.isend, own, 0)])
        finish([dist.P2POp(dist.irecv, result, 0)])
        own = result
    tensor.copy_(own)
