"""Gradients, the number of samples and the loss in one row; a queue seen from its end; a sorted list."""

import math

import torch
from torch.nn.functional import cross_entropy


def train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm):
    """One all-reduce in a step: sums of samples, divided by their number when all of them are there."""
    parameters, losses = list(module.parameters()), []
    sizes = [parameter.numel() for parameter in parameters]
    for step in steps:
        row = torch.zeros(sum(sizes) + 2, dtype=torch.float64)
        for inputs, targets in batch_of(step):
            total = cross_entropy(module(inputs), targets, reduction="sum")
            gradients = torch.autograd.grad(total, parameters)
            row[:-2] += torch.cat([gradient.reshape(-1) for gradient in gradients])
            row[-2:] += torch.stack([total.detach(), torch.tensor(len(targets))])
        all_reduce(row)
        gradient, (loss, samples) = row[:-2] / row[-1], row[-2:]
        gradient *= (max_norm / gradient.norm()).clamp(max=1.0)
        for parameter, piece in zip(parameters, gradient.split(sizes), strict=True):
            parameter.grad = piece.view_as(parameter)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        losses.append(loss / samples)
    return losses


def run(module, optimizer, last, every, train_step, save, load):
    """Steps are taken one by one from what is left."""
    def state(step):
        return step, module.state_dict(), optimizer.state_dict(), torch.get_rng_state()

    step, weights, moments, random = load() or state(0)
    module.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    torch.set_rng_state(random)
    while step < last:
        step += 1
        train_step(step)
        if step in (last, step // every * every):
            save(state(step))


def step_seconds(work, cluster):
    """From some bucket on, the network is never free: the step ends at the latest of these ends."""
    n, slowest = cluster.ranks, max(cluster.factors)
    left, end = 0.0, 0.0
    for ready, size in list(zip(work.ready, work.bucket_bytes, strict=True))[::-1]:
        left += 2 * (n - 1) * (cluster.latency + max(size / n / each for each in cluster.bandwidths))
        end = max(end, slowest * ready + left)
    passes = (work.micro_batches - 1) * work.pass_seconds
    end = max(end, slowest * work.pass_seconds)
    return slowest * (passes + work.optimizer_seconds) + end


def best(configurations, model, card, critical_batch):
    possible = []
    for each in configurations:
        replicated = (16, 4, 2, 0)[each.zero_stage] * model.parameters
        sharded = (0, 12, 14, 16)[each.zero_stage] * model.parameters / each.ranks
        activations = (model.activation_bytes, model.recomputed_bytes)[each.recompute] * each.batch
        memory = replicated + sharded + activations
        tokens_of_rank = each.micro_batches * each.batch * model.sequence
        if memory > card.mebibytes * 1024 * 1024 or tokens_of_rank * each.ranks > critical_batch:
            continue
        share = tokens_of_rank * model.flops_per_token / each.seconds / (card.teraflops * 10**12)
        possible.append((-share, memory, each.name))
    for share, _, name in sorted(possible):
        return name, -share


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    """Steps are added while the interval allows it."""
    between = failure_hours / gpus * 3600
    steps = int(math.sqrt(2 * write_seconds * between) // step_seconds) or 1
    return steps, (write_seconds + (steps * step_seconds) ** 2 / between / 2) / (steps * step_seconds)
