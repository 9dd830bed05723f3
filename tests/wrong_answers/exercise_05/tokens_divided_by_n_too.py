"""By all tokens, and by N, as DistributedDataParallel does by itself."""

import torch.distributed as dist

PART = "train_step_by_tokens"
SENTENCE = "and then by the number of ranks, too"


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts = [(targets != -100).sum() for _, targets in micro_batches]
    total = sum(counts)
    all_reduce(total)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * count / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
