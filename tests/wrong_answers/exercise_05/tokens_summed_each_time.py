"""K sums of one number."""

import torch

PART = "train_step_by_tokens"
SENTENCE = "A small number goes over the network after each micro-batch"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = torch.tensor(0)
    for count in counts:
        of_all = count.clone()
        all_reduce(of_all)
        total += of_all
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
