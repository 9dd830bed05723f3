"""The step stands in the loop."""

PART = "train"
SENTENCE = "The optimizer steps after each micro-batch"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
        optimizer.step()
        optimizer.zero_grad()
