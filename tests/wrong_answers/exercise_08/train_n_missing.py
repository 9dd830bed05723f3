"""The mean over micro-batches, and a sum over ranks."""

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

PART = "train"
SENTENCE = "weight each loss by its samples, over those of all ranks"


def train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm):
    losses = []
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        micro_batches = batch_of(step)
        step_loss = torch.zeros((), dtype=torch.float64)
        for inputs, targets in micro_batches:
            loss = cross_entropy(module(inputs), targets) / len(micro_batches)
            loss.backward()
            step_loss += loss.detach()
        for parameter in module.parameters():
            all_reduce(parameter.grad)
        all_reduce(step_loss)
        clip_grad_norm_(module.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(step_loss.item())
    return losses
