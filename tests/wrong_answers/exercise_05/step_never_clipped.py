"""max_norm is not used."""

import torch.distributed as dist

PART = "train_step"
SENTENCE = "Nothing is clipped"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
