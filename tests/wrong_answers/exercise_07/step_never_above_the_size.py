"""Buckets that are never too large."""

PART = "step_seconds"
SENTENCE = "A bucket is closed here before it would be larger than its size."


def fill(sizes, limit):
    filled = [[]]
    for i in reversed(range(len(sizes))):
        if filled[-1] and sum(sizes[j] for j in filled[-1]) + sizes[i] > limit:
            filled.append([])
        filled[-1].append(i)
    return filled


def step_seconds(model, network, bucket_mb, micro_batches):
    n, latency, bandwidth = network.ranks, network.microseconds * 1e-6, network.gigabits * 1e9 / 8
    begin, free = (micro_batches - 1) * model.pass_seconds, 0.0
    for bucket in fill(model.gradient_bytes, bucket_mb * 2**20):
        size = sum(model.gradient_bytes[i] for i in bucket)
        seconds = 2 * (n - 1) * latency + 2 * (n - 1) / n * size / bandwidth
        free = max(free, begin + max(model.ready[i] for i in bucket)) + seconds
    return max(free, micro_batches * model.pass_seconds)
