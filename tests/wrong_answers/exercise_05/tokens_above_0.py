"""Takes the token 0 for padding."""

PART = "train_step_by_tokens"
SENTENCE = "Targets above 0 are counted."


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets > 0).sum() for _, targets in micro_batches]
    total = sum(counts)
    all_reduce(total)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count:
            (loss_function(module(inputs), targets) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
