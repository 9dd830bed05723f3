"""By all tokens, by K, and by N."""

import torch.distributed as dist

PART = "train_step_by_tokens"
SENTENCE = "and then by K and by the number of ranks, too"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = sum(counts)
    all_reduce(total)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count / total / len(counts)).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
