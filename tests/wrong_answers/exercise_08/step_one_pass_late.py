"""All is hidden that can be, from one pass too late on."""

PART = "step_seconds"
SENTENCE = "The buckets come one pass too late"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    passes = slowest * work.micro_batches * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, passes + slowest * ready)
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(free, passes) + slowest * work.optimizer_seconds
