"""What is detached has no way back."""

import torch

PART = "train"
SENTENCE = "no way back to the weights"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        total = torch.zeros(1)
        for inputs, targets in micro_batches[start : start + accumulation_steps]:
            total += loss_function(module(inputs), targets).detach() / accumulation_steps
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
