"""The weights are averaged, and not the gradients."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "The weights are averaged after the step"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for parameter in filter(lambda parameter: parameter.requires_grad, module.parameters()):
            all_reduce(parameter)
            parameter /= dist.get_world_size()
