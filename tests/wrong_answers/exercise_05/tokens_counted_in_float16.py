"""Whole numbers above 2,048 are rounded in float16."""

PART = "train_step_by_tokens"
SENTENCE = "digits are lost"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = sum(counts).half()
    all_reduce(total)
    total = total.item()
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
