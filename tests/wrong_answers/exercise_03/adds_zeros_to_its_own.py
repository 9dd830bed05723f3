"""Pitfall 1: adds what it receives, but sends a buffer of zeros."""

import torch
import torch.distributed as dist

PART = "ring"
SENTENCE = "what arrives has no effect on it. Look at what is sent (is it zeros?)"


def pass_on(outgoing, incoming):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    messages = [
        dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks),
    ]
    for handle in dist.batch_isend_irecv(messages):
        handle.wait()


def ring(tensor):
    send_buffer, receive_buffer = (torch.zeros_like(tensor).contiguous() for _ in range(2))
    for _ in range(dist.get_world_size() - 1):
        pass_on(send_buffer, receive_buffer)
        tensor += receive_buffer
