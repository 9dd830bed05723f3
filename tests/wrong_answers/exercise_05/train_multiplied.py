"""Times K."""

PART = "train"
SENTENCE = "The loss is multiplied by K"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        (loss_function(module(inputs), targets) * accumulation_steps).backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(micro_batches):
            optimizer.step()
            optimizer.zero_grad()
