"""zero_grad before each backward, as in plain training."""

PART = "train"
SENTENCE = "the gradient of its last micro-batch alone"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        for inputs, targets in group:
            optimizer.zero_grad()
            (loss_function(module(inputs), targets) / len(group)).backward()
        optimizer.step()
