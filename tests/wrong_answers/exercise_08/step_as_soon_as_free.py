"""A bucket does not wait for its gradients."""

PART = "step_seconds"
SENTENCE = "A bucket starts here as soon as the network is free"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    last_pass = (work.micro_batches - 1) * work.pass_seconds
    passes = slowest * work.micro_batches * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = free or slowest * (last_pass + ready)
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return max(passes, free) + slowest * work.optimizer_seconds
