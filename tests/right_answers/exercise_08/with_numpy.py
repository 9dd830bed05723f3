"""Weights of losses from an array of counts; arrays and running maxima."""

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm):
    """The loss of a rank is weighted, so that the mean over ranks comes out right."""
    losses = []
    for step in steps:
        micro_batches = batch_of(step)
        counts = np.array([len(targets) for _, targets in micro_batches])
        of_all = torch.tensor(counts.sum())
        all_reduce(of_all)
        shares = counts * dist.get_world_size() / of_all.item()
        parts = []
        for (inputs, targets), share in zip(micro_batches, shares, strict=True):
            loss = float(share) * cross_entropy(module(inputs), targets)
            loss.backward()
            parts.append(loss.item())
        for parameter in module.parameters():
            parameter.grad /= dist.get_world_size()
            all_reduce(parameter.grad)
        norm = np.sqrt(sum(parameter.grad.square().sum().item() for parameter in module.parameters()))
        for parameter in module.parameters():
            parameter.grad *= min(1.0, max_norm / norm)
        for group in optimizer.param_groups:
            group.update(lr=np.float64(learning_rate(step)))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        total = torch.tensor(np.sum(parts) / dist.get_world_size())
        all_reduce(total)
        losses.append(total.numpy().item())
    return np.array(losses).tolist()


def run(module, optimizer, last, every, train_step, save, load):
    """Weights as arrays, and the steps that are due in a set."""
    begin, kept = 1, load()
    if kept:
        begin, arrays, moments, random = kept
        with torch.no_grad():
            for parameter, array in zip(module.parameters(), arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))
        optimizer.load_state_dict(moments)
        torch.random.set_rng_state(random)
    due = {*np.arange(every, last + 1, every).tolist(), last}
    for step in np.arange(begin, last + 1).tolist():
        train_step(step)
        if step in due:
            arrays = [parameter.detach().numpy() for parameter in module.parameters()]
            save((step + 1, arrays, optimizer.state_dict(), torch.random.get_rng_state()))


def step_seconds(work, cluster):
    chunks = np.array(work.bucket_bytes) / cluster.ranks
    seconds = 2 * (cluster.ranks - 1) * (cluster.latency + chunks / np.min(cluster.bandwidths))
    ready = (work.micro_batches - 1) * work.pass_seconds + np.array(work.ready)
    ends = np.max(cluster.factors) * ready + np.cumsum(seconds[::-1])[::-1]
    computed = np.max(cluster.factors) * work.micro_batches * work.pass_seconds
    return np.maximum(ends.max(), computed) + np.max(cluster.factors) * work.optimizer_seconds


def best(configurations, model, card, critical_batch):
    _, ranks, micro_batches, batch, stage, recompute, seconds = np.array(configurations, dtype=object).T
    kept = np.array([16, 4, 2, 0])[stage.astype(int)]
    activations = np.where(recompute.astype(bool), model.recomputed_bytes, model.activation_bytes)
    memory = (kept + (16 - kept) / ranks) * model.parameters + batch * activations
    tokens = ranks * micro_batches * batch * model.sequence
    share = tokens * model.flops_per_token / (seconds * ranks * card.teraflops * 1e12)
    within = (memory <= card.mebibytes * 2**20) & (tokens <= critical_batch)
    order = np.lexsort((-memory.astype(float), share.astype(float), within.astype(bool)))
    return (configurations[order[-1]].name, share[order[-1]]) if within.any() else None


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = np.float64(failure_hours) * 3600 / gpus
    steps = np.clip(np.sqrt(2 * write_seconds * between) / step_seconds, 1, None).astype(int)
    interval = steps * step_seconds
    return steps, write_seconds / interval + interval / between / 2
