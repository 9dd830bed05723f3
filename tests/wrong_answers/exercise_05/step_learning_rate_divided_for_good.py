"""The learning rate by K in each call, once more each time."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "The learning rate is divided by K, in place of the loss"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for group in optimizer.param_groups:
        group["lr"] /= len(micro_batches)
    for inputs, targets in micro_batches:
        loss_function(module(inputs), targets).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
