"""As most people write it: the loss by its share, then the sum over the ranks."""

from statistics import mean

import torch
import torch.distributed as dist


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    count = len(micro_batches)
    for i, (inputs, targets) in enumerate(micro_batches):
        first = i - i % accumulation_steps
        loss = loss_function(module(inputs), targets) / min(accumulation_steps, count - first)
        loss.backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == count:
            optimizer.step()
            optimizer.zero_grad()


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    losses = []
    for inputs, targets in micro_batches:
        loss = loss_function(module(inputs), targets) / len(micro_batches)
        loss.backward()
        losses.append(loss.item())
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad /= dist.get_world_size()
            all_reduce(parameter.grad)
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return sum(losses)


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    total = torch.tensor([int((targets != -100).sum()) for _, targets in micro_batches]).sum()
    all_reduce(total)
    for inputs, targets in micro_batches:
        tokens = (targets != -100).sum()
        (loss_function(module(inputs), targets) * tokens / total).backward()
    for parameter in module.parameters():
        all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in module.parameters()]
    for inputs, targets in micro_batches:
        loss_function(module(inputs), targets).backward()
        for parameter, summed in zip(module.parameters(), sums, strict=True):
            summed += parameter.grad
        module.zero_grad()
    return [summed / len(micro_batches) for summed in sums]


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    small, big = mean(small_norms_sq), mean(big_norms_sq)
    gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    if gradient_sq <= 0 or noise_trace <= 0:
        return gradient_sq, noise_trace, None
    return gradient_sq, noise_trace, noise_trace / gradient_sq
