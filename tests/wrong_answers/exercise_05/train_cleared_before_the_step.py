"""zero_grad stands one line too high."""

PART = "train"
SENTENCE = "The optimizer finds parameters without a gradient"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        for inputs, targets in group:
            (loss_function(module(inputs), targets) / len(group)).backward()
        optimizer.zero_grad()
        optimizer.step()
