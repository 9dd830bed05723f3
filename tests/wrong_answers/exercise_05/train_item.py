"""A number has no backward."""

PART = "train"
SENTENCE = "no way back to the weights"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for inputs, targets in micro_batches:
        loss = loss_function(module(inputs), targets).item() / accumulation_steps
        loss.backward()
    optimizer.step()
