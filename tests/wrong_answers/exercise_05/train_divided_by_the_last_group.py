"""What is left over for the last step divides all of them."""

PART = "train"
SENTENCE = "Every step is divided by the number of micro-batches in the last one"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    groups = [
        micro_batches[start : start + accumulation_steps]
        for start in range(0, len(micro_batches), accumulation_steps)
    ]
    count = len(groups[-1])
    for group in groups:
        for inputs, targets in group:
            (loss_function(module(inputs), targets) / count).backward()
        optimizer.step()
        optimizer.zero_grad()
