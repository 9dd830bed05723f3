"""Something comes on top."""

PART = "step_seconds"
SENTENCE = "This is more than all parts take one after another"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    before = slowest * (work.micro_batches - 1) * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, before + slowest * ready)
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(free, before + slowest * work.pass_seconds) + slowest * work.optimizer_seconds + 1.0
