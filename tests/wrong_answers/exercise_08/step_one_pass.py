"""K is forgotten."""

PART = "step_seconds"
SENTENCE = "A step has K forward and backward passes, and one is counted"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    passes = slowest * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, slowest * ready)
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(passes, free) + slowest * work.optimizer_seconds
