"""One backward through the sum of K losses."""

PART = "train"
SENTENCE = "that is the memory of the large batch"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        loss = sum(loss_function(module(inputs), targets) for inputs, targets in group) / len(group)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
