"""One backward through the sum of K losses."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "that is the memory of the large batch"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    losses = [loss_function(module(inputs), targets) for inputs, targets in micro_batches]
    torch.stack(losses).mean().backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
