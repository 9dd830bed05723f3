"""All send all, and only rank 0's is used."""

import torch
import torch.distributed as dist

PART = "broadcast"
SENTENCE = "More is sent than is needed"


def broadcast(tensors):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for tensor in tensors:
        own = tensor.contiguous()
        arrived = {other: torch.empty_like(own) for other in range(ranks) if other != rank}
        operations = [dist.P2POp(dist.irecv, buffer, other) for other, buffer in arrived.items()]
        operations += [dist.P2POp(dist.isend, own, other) for other in arrived]
        for handle in dist.batch_isend_irecv(operations) if operations else []:
            handle.wait()
        if rank > 0:
            tensor.copy_(arrived[0])
