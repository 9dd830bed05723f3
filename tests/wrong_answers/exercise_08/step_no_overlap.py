"""After the backward pass."""

PART = "step_seconds"
SENTENCE = "Nothing is hidden here"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    passes = slowest * work.micro_batches * work.pass_seconds
    free = 0.0
    for size in work.bucket_bytes:
        start = max(free, passes)
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(passes, free) + slowest * work.optimizer_seconds
