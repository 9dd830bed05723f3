"""A frozen parameter's grad is None."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "A frozen parameter has no gradient"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        parameter.grad /= dist.get_world_size()
        all_reduce(parameter.grad)
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
