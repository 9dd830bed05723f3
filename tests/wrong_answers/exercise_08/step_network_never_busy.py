"""Each bucket starts when it is complete."""

PART = "step_seconds"
SENTENCE = "Only the last bucket's own seconds are counted"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    last_pass = (work.micro_batches - 1) * work.pass_seconds
    passes = slowest * work.micro_batches * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        end = slowest * (last_pass + ready) + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
        free = max(free, end)
    return max(passes, free) + slowest * work.optimizer_seconds
