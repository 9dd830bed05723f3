"""The total is that of the last micro-batch of each rank."""

PART = "train_step_by_tokens"
SENTENCE = "the tokens of one micro-batch of each rank"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = counts[-1].clone()
    all_reduce(total)
    total = total.clamp(min=1)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
