"""All positions are taken for tokens, everywhere."""

import torch

PART = "train_step_by_tokens"
SENTENCE = "the mean of the micro-batches' means"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [torch.tensor(targets.numel()) for _, targets in micro_batches]
    total = sum(counts)
    all_reduce(total)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (torch.nan_to_num(loss_function(module(inputs), targets)) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
