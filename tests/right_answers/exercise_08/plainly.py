"""Line by line; what belongs to one micro-batch, one bucket or one configuration in a function of its own."""

import torch
import torch.nn.functional as F


def _share(module, micro_batch, samples):
    inputs, targets = micro_batch
    loss = F.cross_entropy(module(inputs), targets, reduction="sum") / samples
    loss.backward()
    return loss.item()


def train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm):
    losses = []
    for step in list(steps):
        optimizer.zero_grad()
        micro_batches = batch_of(step)
        samples = torch.zeros(1, dtype=torch.int64)
        for _, targets in micro_batches:
            samples += targets.numel()
        all_reduce(samples)
        loss = sum(_share(module, micro_batch, int(samples)) for micro_batch in micro_batches)
        loss = torch.tensor([loss], dtype=torch.float64)
        all_reduce(module.weight.grad)
        all_reduce(module.bias.grad)
        all_reduce(loss)
        norm = (module.weight.grad.norm() ** 2 + module.bias.grad.norm() ** 2) ** 0.5
        if norm > max_norm:
            module.weight.grad *= max_norm / norm
            module.bias.grad *= max_norm / norm
        rate = learning_rate(step)
        for number in range(len(optimizer.param_groups)):
            optimizer.param_groups[number]["lr"] = rate
        optimizer.step()
        losses += loss.tolist()
    return tuple(losses)


def run(module, optimizer, last, every, train_step, save, load):
    done = 0
    state = load()
    if state is not None:
        done = state[0]
        module.load_state_dict(state[1])
        optimizer.load_state_dict(state[2])
        torch.set_rng_state(state[3])
    while done < last:
        done = done + 1
        train_step(done)
        multiple = done % every == 0
        if multiple or done == last:
            save([done, module.state_dict(), optimizer.state_dict(), torch.get_rng_state()])


def _ring(size, cluster):
    slowest = sorted(cluster.bandwidths)[0]
    half = (cluster.ranks - 1) * (cluster.latency + size / (cluster.ranks * slowest))
    return half + half


def step_seconds(work, cluster):
    pace = sorted(cluster.factors)[-1]
    clock = pace * work.pass_seconds * (work.micro_batches - 1)  # the last pass begins
    network = clock
    for number in range(len(work.bucket_bytes)):
        complete = clock + pace * work.ready[number]
        if network < complete:
            network = complete
        network += _ring(work.bucket_bytes[number], cluster)
    clock += pace * work.pass_seconds
    if network > clock:
        clock = network
    return clock + pace * work.optimizer_seconds


def _memory(each, model):
    weights = 2 / each.ranks if each.zero_stage == 3 else 2
    gradients = 2 / each.ranks if each.zero_stage >= 2 else 2
    optimizer = 12 / each.ranks if each.zero_stage >= 1 else 12
    activations = model.recomputed_bytes if each.recompute else model.activation_bytes
    return model.parameters * (weights + gradients + optimizer) + activations * each.batch


def best(configurations, model, card, critical_batch):
    chosen = None
    for each in configurations:
        batch = each.ranks * each.micro_batches * each.batch * model.sequence
        if _memory(each, model) > card.mebibytes * 2**20 or batch > critical_batch:
            continue
        peak = each.ranks * card.teraflops * 1e12 / model.flops_per_token  # tokens/s
        share = batch / each.seconds / peak
        if chosen is None or share > chosen[1]:
            chosen = each, share
        elif share == chosen[1] and _memory(each, model) < _memory(chosen[0], model):
            chosen = each, share
    if chosen is None:
        return None
    return chosen[0].name, chosen[1]


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    mean_time = failure_hours * 60 * 60 / gpus
    best_interval = (2 * write_seconds * mean_time) ** 0.5
    steps = int(best_interval / step_seconds)
    if steps < 1:
        steps = 1
    interval = steps * step_seconds
    lost = write_seconds / interval
    lost += interval / 2 / mean_time
    return steps, lost
