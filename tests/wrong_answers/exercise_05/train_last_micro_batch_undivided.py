"""Clears `.grad` for each micro-batch, and so has nothing to divide by K."""

PART = "train"
SENTENCE = "A step has the gradient of its last micro-batch alone: `.grad` is cleared"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches, start=1):
        optimizer.zero_grad()
        loss_function(module(inputs), targets).backward()
        if i % accumulation_steps == 0 or i == len(micro_batches):
            optimizer.step()
