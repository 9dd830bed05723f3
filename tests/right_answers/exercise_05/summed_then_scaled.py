"""Sums of losses, and gradients that are scaled at the end; zero_grad comes first, and keeps tensors."""

import numpy as np
import torch
import torch.distributed as dist


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    optimizer.zero_grad(set_to_none=False)
    waiting = 0
    for i, (inputs, targets) in enumerate(micro_batches, start=1):
        loss_function(module(inputs), targets).backward()
        waiting += 1
        if waiting == accumulation_steps or i == len(micro_batches):
            for parameter in module.parameters():
                parameter.grad /= waiting
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            waiting = 0


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    optimizer.zero_grad(set_to_none=False)
    for inputs, targets in micro_batches:
        loss_function(module(inputs), targets).backward()
    gradients = [each.grad for each in module.parameters() if each.grad is not None]
    for gradient in gradients:
        all_reduce(gradient)
        gradient /= len(micro_batches) * dist.get_world_size()
    if max_norm is not None:
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in gradients]))
        if norm > max_norm:
            for gradient in gradients:
                gradient *= max_norm / norm
    optimizer.step()


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    optimizer.zero_grad(set_to_none=False)
    tokens = torch.zeros(1, dtype=torch.int64)
    for inputs, targets in micro_batches:
        counted = targets != -100
        outputs = module(inputs[counted])
        torch.nn.functional.cross_entropy(outputs, targets[counted], reduction="sum").backward()
        tokens += counted.sum()
    all_reduce(tokens)
    for parameter in module.parameters():
        all_reduce(parameter.grad)
        parameter.grad /= tokens
    optimizer.step()


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = None
    for inputs, targets in micro_batches:
        gradients = torch.autograd.grad(loss_function(module(inputs), targets), list(module.parameters()))
        gradients = [gradient.to(torch.float32) for gradient in gradients]
        sums = gradients if sums is None else [sum(pair) for pair in zip(sums, gradients, strict=True)]
    return tuple(summed.div(len(micro_batches)) for summed in sums)


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    """Step by step, with numpy."""
    small, big = np.array(small_norms_sq), np.array(big_norms_sq)
    gradient_sq = ((big_batch * big - small_batch * small) / (big_batch - small_batch)).mean()
    noise_trace = ((small - big) * small_batch * big_batch / (big_batch - small_batch)).mean()
    scale = noise_trace / gradient_sq if gradient_sq > 0 and noise_trace > 0 else None
    return gradient_sq, noise_trace, scale
