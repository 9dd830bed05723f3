"""The last bucket comes for free."""

from course_lib import buckets

PART = "step_seconds"
SENTENCE = "The last bucket is called hidden"


def step_seconds(model, network, bucket_mb, micro_batches):
    n, latency, bandwidth = network.ranks, network.microseconds * 1e-6, network.gigabits * 1e9 / 8
    begin, free, done = (micro_batches - 1) * model.pass_seconds, 0.0, 0.0
    for bucket in buckets.assign(model.gradient_bytes, bucket_mb * 2**20):
        size = sum(model.gradient_bytes[i] for i in bucket)
        seconds = 2 * (n - 1) * latency + 2 * (n - 1) / n * size / bandwidth
        done = free
        free = max(free, begin + max(model.ready[i] for i in bucket)) + seconds
    return max(done, micro_batches * model.pass_seconds)
