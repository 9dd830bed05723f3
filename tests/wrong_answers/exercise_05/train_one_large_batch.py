"""The K micro-batches are put together again."""

import torch

PART = "train"
SENTENCE = "that is the memory of the large batch"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        inputs, targets = (torch.cat(tensors) for tensors in zip(*group, strict=True))
        loss_function(module(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
