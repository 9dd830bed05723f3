"""The learning rate by K, and not the loss."""

PART = "train"
SENTENCE = "The learning rate is divided by K, in place of the loss"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for group in optimizer.param_groups:
        group["lr"] /= accumulation_steps
    for i, (inputs, targets) in enumerate(micro_batches):
        loss_function(module(inputs), targets).backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(micro_batches):
            optimizer.step()
            optimizer.zero_grad()
