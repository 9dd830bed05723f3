"""The factor is on `ready` and on the optimizer, and not on the passes themselves."""

PART = "step_seconds"
SENTENCE = "The slowest rank's backward pass ends later, too"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    before = (work.micro_batches - 1) * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, slowest * (before + ready))
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(before + work.pass_seconds, free) + slowest * work.optimizer_seconds
