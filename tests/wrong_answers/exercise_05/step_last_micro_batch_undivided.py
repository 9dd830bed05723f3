"""Clears `.grad` for each micro-batch, and so has nothing to divide by K."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "A step has the gradient of its last micro-batch alone"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        optimizer.zero_grad()
        loss_function(module(inputs), targets).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
