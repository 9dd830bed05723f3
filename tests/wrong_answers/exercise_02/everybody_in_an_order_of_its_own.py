"""The same, each begins with its own tensor."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "the ranks' last bits differ"


def star(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = tensor.contiguous().clone()
    arrived = {(rank + step) % ranks: torch.empty_like(own) for step in range(1, ranks)}
    operations = [dist.P2POp(dist.irecv, buffer, other) for other, buffer in arrived.items()]
    operations += [dist.P2POp(dist.isend, own, other) for other in arrived]
    for handle in dist.batch_isend_irecv(operations) if operations else []:
        handle.wait()
    tensor.copy_(sum(arrived.values(), start=own))
