"""Each parameter has a norm of its own."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "Each parameter's gradient is clipped by itself"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        for parameter in module.parameters():
            torch.nn.utils.clip_grad_norm_(parameter, max_norm)
    optimizer.step()
    optimizer.zero_grad()
