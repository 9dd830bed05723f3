"""The sum stands before the last backward."""

import torch
import torch.distributed as dist

PART = "train_step"
SENTENCE = "before the last micro-batch is in them"


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    for i, (inputs, targets) in enumerate(micro_batches):
        loss = loss_function(module(inputs), targets) / len(micro_batches)
        if i + 1 == len(micro_batches):
            for parameter in module.parameters():
                if parameter.grad is not None:
                    all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
        loss.backward()
        if len(micro_batches) == 1:
            for parameter in module.parameters():
                if parameter.grad is not None:
                    all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
