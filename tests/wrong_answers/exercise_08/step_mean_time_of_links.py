"""The times of the links are averaged."""

PART = "step_seconds"
SENTENCE = "The links are averaged"


def step_seconds(work, cluster):
    n, slowest = cluster.ranks, max(cluster.factors)
    bandwidth = n / sum(1 / each for each in cluster.bandwidths)
    last_pass = (work.micro_batches - 1) * work.pass_seconds
    passes = slowest * work.micro_batches * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, slowest * (last_pass + ready))
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(passes, free) + slowest * work.optimizer_seconds
