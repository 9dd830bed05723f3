"""Only the last bucket counts."""

PART = "step_seconds"
SENTENCE = "Only the last bucket's own seconds are counted"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    passes = slowest * work.micro_batches * work.pass_seconds
    last = 2 * (n - 1) * (cluster.latency + work.bucket_bytes[-1] / n / bandwidth)
    return passes + last + slowest * work.optimizer_seconds
