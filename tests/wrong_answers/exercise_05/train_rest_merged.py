"""What is left at the end goes into the step before."""

PART = "train"
SENTENCE = "the step before takes them too"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    steps = max(1, len(micro_batches) // accumulation_steps)
    for step in range(steps):
        end = (step + 1) * accumulation_steps if step < steps - 1 else None
        group = micro_batches[step * accumulation_steps : end]
        for inputs, targets in group:
            (loss_function(module(inputs), targets) / len(group)).backward()
        optimizer.step()
        optimizer.zero_grad()
