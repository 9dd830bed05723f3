"""Before the backward pass it asks whether K are complete; nobody asks after the last one."""

PART = "train"
SENTENCE = "a step is made when the micro-batch after it begins"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        if i and i % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
