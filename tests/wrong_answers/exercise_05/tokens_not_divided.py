"""A sum over tokens."""

PART = "train_step_by_tokens"
SENTENCE = "that nobody has divided by their number"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
