"""zero_grad before each backward."""

PART = "train_step_by_tokens"
SENTENCE = "the gradient of its last micro-batch alone"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = sum(counts)
    all_reduce(total)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        optimizer.zero_grad()
        (loss_function(module(inputs), targets) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
