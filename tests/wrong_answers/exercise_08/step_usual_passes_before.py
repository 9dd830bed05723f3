"""The slowest rank is slow in the last pass only."""

PART = "step_seconds"
SENTENCE = "its factor belongs to those before the last one, too"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    before = (work.micro_batches - 1) * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, before + slowest * ready)
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(free, before + slowest * work.pass_seconds) + slowest * work.optimizer_seconds
