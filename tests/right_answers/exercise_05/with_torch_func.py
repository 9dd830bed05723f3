"""Gradients by torch.func, with the module's own parameters; what they are made of is let go at once."""

from statistics import fmean

import torch
import torch.distributed as dist
from torch.func import functional_call, grad


def _gradients(module, loss_function, inputs, targets):
    """By name.  What torch.func returns can be differentiated again, and keeps activations until detached."""
    def loss(parameters):
        return loss_function(functional_call(module, parameters, (inputs,)), targets)

    parameters = {name: each for name, each in module.named_parameters() if each.requires_grad}
    return {name: gradient.detach() for name, gradient in grad(loss)(parameters).items()}


def _add(sums, gradients, share):
    for name, gradient in gradients.items():
        sums[name] = sums.get(name, 0) + share * gradient


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group, sums = micro_batches[start : start + accumulation_steps], {}
        for pair in group:
            _add(sums, _gradients(module, loss_function, *pair), 1 / len(group))
        for name, gradient in sums.items():
            module.get_parameter(name).grad = gradient
        optimizer.step()


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    sums = {}
    for pair in micro_batches:
        _add(sums, _gradients(module, loss_function, *pair), 1 / (len(micro_batches) * dist.get_world_size()))
    for name, gradient in sums.items():
        all_reduce(gradient)
        module.get_parameter(name).grad = gradient
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    counts, sums = [int((targets != -100).sum()) for _, targets in micro_batches], {}
    total = torch.tensor(sum(counts))
    all_reduce(total)
    for pair, count in zip(micro_batches, counts, strict=True):
        if count > 0:
            _add(sums, _gradients(module, loss_function, *pair), count / total)
    for name, gradient in sums.items():
        all_reduce(gradient)
        module.get_parameter(name).grad = gradient
    optimizer.step()


def gradients_in_fp32(module, micro_batches, loss_function):
    sums = {}
    for pair in micro_batches:
        gradients = _gradients(module, loss_function, *pair)
        _add(sums, {name: each.float() for name, each in gradients.items()}, 1 / len(micro_batches))
    return [sums[name] for name, _ in module.named_parameters()]


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    """By the line through both points, over 1/B: its slope and where it meets the axis."""
    small, big = fmean(small_norms_sq), fmean(big_norms_sq)
    noise_trace = (small - big) / (1 / small_batch - 1 / big_batch)
    gradient_sq = small - noise_trace / small_batch
    return gradient_sq, noise_trace, noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
