"""A ring of N rounds."""

PART = "step_seconds"
SENTENCE = "N messages are counted in the place of 2 (N - 1)"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    before = slowest * (work.micro_batches - 1) * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, before + slowest * ready)
        free = start + n * (cluster.latency + size / n / bandwidth)
    return max(free, before + slowest * work.pass_seconds) + slowest * work.optimizer_seconds
