"""The gradient is clipped after each micro-batch's backward pass."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "The gradient is clipped in the loop"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
