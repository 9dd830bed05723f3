"""Each count and each loss goes over the network by itself."""

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

PART = "train"
SENTENCE = "A small number goes over the network after each micro-batch"


def train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm):
    losses = []
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        micro_batches = batch_of(step)
        samples = 0.0
        for _, targets in micro_batches:
            count = torch.tensor(float(len(targets)))
            all_reduce(count)
            samples += count
        step_loss = torch.zeros((), dtype=torch.float64)
        for inputs, targets in micro_batches:
            loss = cross_entropy(module(inputs), targets) * len(targets) / samples
            loss.backward()
            part = loss.detach().clone()
            all_reduce(part)
            step_loss += part
        for parameter in module.parameters():
            all_reduce(parameter.grad)
        clip_grad_norm_(module.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(step_loss.item())
    return losses
