"""Hooks that sum what each backward brings: right, at K times the bytes."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "after each micro-batch, K times as many bytes"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    def average(gradient):
        gradient = gradient.clone()
        all_reduce(gradient)
        return gradient / dist.get_world_size()

    hooks = [each.register_hook(average) for each in module.parameters() if each.requires_grad]
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for hook in hooks:
        hook.remove()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
