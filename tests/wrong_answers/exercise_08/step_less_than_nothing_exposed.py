"""The end of the last bucket is the end of the passes."""

PART = "step_seconds"
SENTENCE = "Less than nothing is exposed"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    last_pass = (work.micro_batches - 1) * work.pass_seconds
    free = 0.0
    for ready, size in zip(work.ready, work.bucket_bytes, strict=True):
        start = max(free, slowest * (last_pass + ready))
        free = start + 2 * (n - 1) * (cluster.latency + size / n / bandwidth)
    return free + slowest * work.optimizer_seconds
