"""all_reduce works in place and returns nothing."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "Something is None"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad = all_reduce(parameter.grad) / dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
