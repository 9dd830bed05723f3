"""The total is that of the largest micro-batch of each rank."""

import torch

PART = "train_step_by_tokens"
SENTENCE = "Tokens of the largest micro-batch are counted"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [int((targets != -100).sum()) for _, targets in micro_batches]
    total = torch.tensor(max(counts))
    all_reduce(total)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * (count / total)).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
