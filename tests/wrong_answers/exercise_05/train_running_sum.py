"""Each backward goes through all earlier micro-batches again."""

PART = "train"
SENTENCE = "goes through the same micro-batch a second time"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group, total = micro_batches[start : start + accumulation_steps], 0
        for inputs, targets in group:
            total = total + loss_function(module(inputs), targets) / len(group)
            total.backward()
        optimizer.step()
        optimizer.zero_grad()
