"""Each sends its tensor to all others, and adds."""

import torch
import torch.distributed as dist

PART = "star"
SENTENCE = "every rank sends (N-1) S bytes"


def star(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = tensor.contiguous().clone()
    arrived = {other: torch.empty_like(own) for other in range(ranks) if other != rank}
    operations = [dist.P2POp(dist.irecv, buffer, other) for other, buffer in arrived.items()]
    operations += [dist.P2POp(dist.isend, own, other) for other in arrived]
    for handle in dist.batch_isend_irecv(operations) if operations else []:
        handle.wait()
    arrived[rank] = own
    tensor.copy_(sum(arrived[other] for other in range(ranks)))
