"""The library's own functions, where it has them: the course does not forbid to compare."""

import math

import torch
from torch.nn.functional import cross_entropy

from course_lib import memory, simulator, utilization


def train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm):
    """The share of a loss is the gradient with which its backward pass begins."""
    losses = []
    for step in steps:
        micro_batches = batch_of(step)
        samples = torch.tensor([sum(len(targets) for _, targets in micro_batches)], dtype=torch.float64)
        all_reduce(samples)
        total = torch.zeros((), dtype=torch.float64)
        for inputs, targets in micro_batches:
            share = len(targets) / samples.squeeze()
            loss = cross_entropy(module(inputs), targets)
            loss.backward(gradient=share)
            total += share * loss.detach()
        for parameter in module.parameters():
            all_reduce(parameter.grad)
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        optimizer.zero_grad()
        all_reduce(total)
        losses.append(total)
    return torch.stack(losses)


def run(module, optimizer, last, every, train_step, save, load):
    """One step, and then all that are left."""
    state = load()
    if state:
        module.load_state_dict(state.pop("module"))
        optimizer.load_state_dict(state.pop("optimizer"))
        torch.set_rng_state(state.pop("random"))
    steps = list(range(1, last + 1))[state["done"] if state else 0 :]
    for step in steps:
        train_step(step)
        if not step % every or step == steps[-1]:
            save(dict(module=module.state_dict(), optimizer=optimizer.state_dict(),
                      random=torch.get_rng_state(), done=step))  # fmt: skip


def step_seconds(work, cluster):
    """All links as slow as the slowest, and all ranks too."""
    slowest, first = max(cluster.factors), work.ready[0] / 2
    times = [first, *work.ready]
    layers = [
        simulator.Layer("", (size,), 0.0, slowest * (end - start))
        for size, start, end in zip(work.bucket_bytes, times[:-1], times[1:], strict=True)
    ]
    layers.insert(0, simulator.Layer("", (), slowest * first, 0.0))
    slow = simulator.Link(cluster.latency, min(cluster.bandwidths))
    return simulator.simulate_cluster(
        layers[::-1], cluster.ranks, slow, micro_batches=work.micro_batches,
        optimizer_seconds=slowest * work.optimizer_seconds,
        assignment=[[index] for index in reversed(range(len(work.ready)))],
    ).seconds  # fmt: skip


def best(configurations, model, card, critical_batch):
    found, best_share, least = None, 0.0, math.inf
    for each in configurations:
        tokens = each.ranks * each.micro_batches * each.batch * model.sequence
        state = memory.model_state(model.parameters, zero_stage=each.zero_stage, ranks=each.ranks).total
        needed = state + each.batch * (model.recomputed_bytes if each.recompute else model.activation_bytes)
        share = utilization.utilization(
            tokens / each.seconds, model.flops_per_token, each.ranks, card.teraflops * 1e12)
        if needed <= card.mebibytes * 2**20 and tokens <= critical_batch:
            if share > best_share or (share == best_share and needed < least):
                found, best_share, least = each.name, share, needed
    return found and (found, best_share)


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    failures_a_second = gpus / (3600 * failure_hours)
    steps = 1
    while ((steps + 1) * step_seconds) ** 2 <= 2 * write_seconds / failures_a_second:
        steps += 1
    interval = steps * step_seconds
    return steps, write_seconds / interval + failures_a_second * interval / 2
