"""The library's own functions."""

from itertools import pairwise

from course_lib import timeline, utilization
from course_lib.cost_model import all_reduce_seconds
from course_lib.simulator import Layer, simulate_step


def hidden_and_exposed(spans, rank):
    return timeline.hidden_seconds(spans)[rank], timeline.exposed_seconds(spans)[rank]


def bucket_times(buckets, ready, seconds, backward_end):
    """A step in which layer i is there for bucket i alone, after the backward pass until it is complete."""
    complete = [max(ready[i] for i in bucket) for bucket in buckets]
    follow = [max(complete[: number + 1]) for number in range(len(buckets))]
    durations = [second - first for first, second in pairwise([0.0, *follow])]
    layers = [Layer(str(i), (i,), 0, duration) for i, duration in enumerate(durations)][::-1]
    assignment = [[len(layers) - 1 - i] for i in range(len(layers))]
    step = simulate_step(layers, lambda number: seconds[number], assignment=assignment)
    return [(each.start, each.end) for each in step.buckets], max(0, step.buckets[-1].end - backward_end)


def step_seconds(model, network, bucket_mb, micro_batches):
    """The forward pass is put before the first gradient."""
    times = [end - start for end, start in pairwise([*model.ready, 0.0])]
    layers = [Layer("", (size,), 0, time) for size, time in zip(model.gradient_bytes, times, strict=True)]
    latency, bandwidth = network.microseconds / 1e6, network.gigabits * 1e9 / 8
    return simulate_step(
        layers,
        lambda size: all_reduce_seconds("ring", size, network.ranks, latency, bandwidth),
        bucket_mb=bucket_mb, first_bucket_mb=bucket_mb, micro_batches=micro_batches,
    ).seconds  # fmt: skip


def best_bucket(model, network, sizes, micro_batches):
    return min((step_seconds(model, network, size, micro_batches), size) for size in sizes)[::-1]


def mfu_and_hfu(run, data_sheet):
    shape = run.parameters, run.layers, run.heads * run.head_size, run.sequence
    if (peak := data_sheet.get(run.dtype)) is None:
        return None
    mfu = utilization.mfu(run.tokens_per_second, *shape, run.devices, peak)
    full = utilization.hfu(run.tokens_per_second, *shape, run.devices, peak, recompute="full")
    return [mfu, mfu + run.recomputed * (full - mfu)]


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    return utilization.gpu_hours(tokens, tokens_per_second, devices, exposed_seconds / step_seconds)
