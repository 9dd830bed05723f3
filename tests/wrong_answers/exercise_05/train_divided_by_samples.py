"""By K, and by the samples, whose mean the loss is."""

PART = "train"
SENTENCE = "divided by the number of samples, too"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        for inputs, targets in group:
            (loss_function(module(inputs), targets) / (len(group) * len(inputs))).backward()
        optimizer.step()
        optimizer.zero_grad()
