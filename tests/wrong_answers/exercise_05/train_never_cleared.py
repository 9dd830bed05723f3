"""No zero_grad."""

PART = "train"
SENTENCE = "who clears `.grad`?"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        for inputs, targets in group:
            (loss_function(module(inputs), targets) / len(group)).backward()
        optimizer.step()
