"""Hooks that fire when a gradient is complete; torch's own type for gradients; plain lists."""

from statistics import fmean

import torch
import torch.distributed as dist


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        count = len(group)
        hooks = [
            each.register_hook(lambda gradient, count=count: gradient / count)
            for each in module.parameters()
        ]
        for inputs, targets in group:
            loss_function(module(inputs), targets).backward()
        for hook in hooks:
            hook.remove()
        optimizer.step()
        module.zero_grad()


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    def average(parameter):
        if is_last:
            all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    hooks = [parameter.register_post_accumulate_grad_hook(average) for parameter in trained]
    for i, (inputs, targets) in enumerate(micro_batches):
        is_last = i == len(micro_batches) - 1
        loss_function(module(inputs), targets).div(len(micro_batches)).backward()
    for hook in hooks:
        hook.remove()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(trained, max_norm, foreach=False)
    optimizer.step()
    module.zero_grad()


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    """Averages over the ranks, as DistributedDataParallel does, and takes that into account before."""
    counts = [targets.ne(-100).sum().item() for _, targets in micro_batches]
    mean_count = torch.tensor(float(sum(counts)), dtype=torch.float64)
    all_reduce(mean_count)
    mean_count /= dist.get_world_size()
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count > 0:
            (loss_function(module(inputs), targets) * (count / mean_count.item())).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()


def gradients_in_fp32(module, micro_batches, loss_function):
    """Since version 2.10 torch adds up in another type if it is told to."""
    for parameter in module.parameters():
        parameter.grad_dtype = torch.float32
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    return [parameter.grad for parameter in module.parameters()]


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    pairs = list(zip(small_norms_sq, big_norms_sq, strict=True))
    gradient_sq = fmean((big_batch * b - small_batch * s) / (big_batch - small_batch) for s, b in pairs)
    noise_trace = fmean((s - b) / (1 / small_batch - 1 / big_batch) for s, b in pairs)
    try:
        scale = noise_trace / gradient_sq
    except ZeroDivisionError:
        scale = None
    return [gradient_sq, noise_trace, scale if gradient_sq > 0 and scale > 0 else None]
