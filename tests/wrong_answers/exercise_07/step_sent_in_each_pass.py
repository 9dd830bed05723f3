"""No no_sync."""

from course_lib import buckets

PART = "step_seconds"
SENTENCE = "The gradients are sent in each of the K passes here."


def step_seconds(model, network, bucket_mb, micro_batches):
    n, latency, bandwidth = network.ranks, network.microseconds * 1e-6, network.gigabits * 1e9 / 8
    free = 0.0
    for bucket in buckets.assign(model.gradient_bytes, bucket_mb * 2**20):
        size = sum(model.gradient_bytes[i] for i in bucket)
        seconds = 2 * (n - 1) * latency + 2 * (n - 1) / n * size / bandwidth
        free = max(free, max(model.ready[i] for i in bucket)) + seconds
    return micro_batches * max(free, model.pass_seconds)
