"""clip_grad_value_ clips each element."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "Each element is clipped by itself"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_value_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
