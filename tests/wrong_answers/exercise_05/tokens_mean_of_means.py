"""As if all had equally many tokens."""

import torch
import torch.distributed as dist

PART = "train_step_by_tokens"
SENTENCE = "the mean of the micro-batches' means"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    for inputs, targets in micro_batches:
        loss = loss_function(module(inputs), targets)
        (torch.nan_to_num(loss) / len(micro_batches)).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
