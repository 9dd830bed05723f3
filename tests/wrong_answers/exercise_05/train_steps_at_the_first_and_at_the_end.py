"""i % K, and what is left over makes a last step."""

PART = "train"
SENTENCE = "steps after the first of K"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
        if i % accumulation_steps == 0 or i == len(micro_batches) - 1:
            optimizer.step()
            optimizer.zero_grad()
