"""The right result, at K times the bytes."""

import torch

PART = "train_step_by_tokens"
SENTENCE = "after each micro-batch, K times as many bytes"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = sum(counts)
    all_reduce(total)
    sums = [torch.zeros_like(parameter) for parameter in module.parameters()]
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count / total).backward()
        for parameter, summed in zip(module.parameters(), sums, strict=True):
            part = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            all_reduce(part)
            summed += part
        optimizer.zero_grad()
    for parameter, summed in zip(module.parameters(), sums, strict=True):
        parameter.grad = summed
    optimizer.step()
    optimizer.zero_grad()
