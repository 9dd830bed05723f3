"""To microseconds."""

from course_lib import buckets

PART = "step_seconds"
SENTENCE = "This is right in its first digits only"


def step_seconds(model, network, bucket_mb, micro_batches):
    n, latency, bandwidth = network.ranks, network.microseconds * 1e-6, network.gigabits * 1e9 / 8
    begin, free = (micro_batches - 1) * model.pass_seconds, 0.0
    for bucket in buckets.assign(model.gradient_bytes, bucket_mb * 2**20):
        size = sum(model.gradient_bytes[i] for i in bucket)
        seconds = 2 * (n - 1) * latency + 2 * (n - 1) / n * size / bandwidth
        free = max(free, begin + max(model.ready[i] for i in bucket)) + seconds
    return round(max(free, micro_batches * model.pass_seconds), 6)
