"""As if each rank had a part of the gradient: 0.8 comes out as 1.131371 on two ranks."""

import torch.distributed as dist

PART = "train_step"
SENTENCE = "The squares of the norm are added up over the ranks"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        trained = [parameter for parameter in module.parameters() if parameter.grad is not None]
        square = sum(parameter.grad.square().sum() for parameter in trained)
        all_reduce(square)
        for parameter in trained:
            parameter.grad *= min(1.0, max_norm / square.sqrt().item())
    optimizer.step()
    optimizer.zero_grad()
