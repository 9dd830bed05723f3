"""Clipped between the sum and the division."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "The sum over the ranks is clipped"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    trained = [parameter for parameter in module.parameters() if parameter.grad is not None]
    for parameter in trained:
        all_reduce(parameter.grad)
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    for parameter in trained:
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
