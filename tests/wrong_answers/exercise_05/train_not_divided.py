"""The sum over K micro-batches."""

PART = "train"
SENTENCE = "K times too large"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        loss_function(module(inputs), targets).backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(micro_batches):
            optimizer.step()
            optimizer.zero_grad()
