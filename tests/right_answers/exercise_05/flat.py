"""All gradients in one tensor, for one all-reduce; gradients by autograd.grad; a sum in float64."""

import torch
import torch.distributed as dist


def _trained(module):
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _row(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _put(row, parameters):
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, piece in zip(parameters, row.split(sizes), strict=True):
        parameter.grad = piece.view_as(parameter)


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    parameters, waiting = _trained(module), list(micro_batches)
    while waiting:
        now, waiting = waiting[:accumulation_steps], waiting[accumulation_steps:]
        total = torch.zeros(())
        for inputs, targets in now:
            total = total + _row(torch.autograd.grad(loss_function(module(inputs), targets), parameters))
        _put(total / len(now), parameters)
        optimizer.step()


def train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm):
    parameters = _trained(module)
    total = sum(
        _row(torch.autograd.grad(loss_function(module(inputs), targets), parameters))
        for inputs, targets in micro_batches
    )
    all_reduce(total)
    total /= len(micro_batches) * dist.get_world_size()
    if max_norm is not None:
        total *= (max_norm / total.norm()).clamp(max=1.0)
    _put(total, parameters)
    optimizer.step()


def train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce):
    """The number of tokens travels with the gradients, as one more element."""
    parameters, tokens = _trained(module), 0
    total = torch.zeros(sum(each.numel() for each in parameters), dtype=parameters[0].dtype)
    for inputs, targets in micro_batches:
        count = int((targets != -100).sum())
        if count:
            loss = loss_function(module(inputs), targets) * count
            total += _row(torch.autograd.grad(loss, parameters))
            tokens += count
    total = torch.cat([total, torch.tensor([tokens], dtype=total.dtype)])
    all_reduce(total)
    _put(total[:-1] / total[-1], parameters)
    optimizer.step()


def gradients_in_fp32(module, micro_batches, loss_function):
    parameters = _trained(module)
    total = torch.zeros(sum(each.numel() for each in parameters), dtype=torch.float64)
    for inputs, targets in micro_batches:
        total += _row(torch.autograd.grad(loss_function(module(inputs), targets), parameters))
    sizes = [each.numel() for each in parameters]
    rows = (total / len(micro_batches)).float().split(sizes)
    return [row.view_as(each) for row, each in zip(rows, parameters, strict=True)]


def noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch):
    """First the trace, then what it adds to the big batch's norm is taken away."""
    steps = len(small_norms_sq)
    small, big = sum(small_norms_sq) / steps, sum(big_norms_sq) / steps
    noise_trace = (small - big) * big_batch * small_batch / (big_batch - small_batch)
    gradient_sq = big - noise_trace / big_batch
    return gradient_sq, noise_trace, noise_trace / gradient_sq if min(gradient_sq, noise_trace) > 0 else None
