"""The step stands after the loop over everything."""

PART = "train"
SENTENCE = "Only one step is made"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
    optimizer.step()
    optimizer.zero_grad()
