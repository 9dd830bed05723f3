"""By N before the sum, and after it."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "divided by N twice"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        share = len(micro_batches) * dist.get_world_size()
        (loss_function(module(inputs), targets) / share).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
