"""Short gradients are made longer."""

import torch.distributed as dist

PART = "train_step"
SENTENCE = "is made longer"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        trained = [parameter for parameter in module.parameters() if parameter.grad is not None]
        norm = sum(parameter.grad.square().sum() for parameter in trained).sqrt()
        for parameter in trained:
            parameter.grad *= max_norm / norm
    optimizer.step()
    optimizer.zero_grad()
