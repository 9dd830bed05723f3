"""The step stands in the loop, and zero_grad does not."""

PART = "train"
SENTENCE = "The optimizer steps after each micro-batch"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
        optimizer.step()
        if (i + 1) % accumulation_steps == 0:
            optimizer.zero_grad()
