"""zero_grad before the loop only."""

PART = "train"
SENTENCE = "who clears `.grad`?"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    optimizer.zero_grad()
    for i, (inputs, targets) in enumerate(micro_batches):
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(micro_batches):
            optimizer.step()
