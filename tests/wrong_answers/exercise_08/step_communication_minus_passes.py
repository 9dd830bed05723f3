"""Communication minus computing."""

PART = "step_seconds"
SENTENCE = "All K passes hide communication here"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    passes = slowest * work.micro_batches * work.pass_seconds
    sent = sum(2 * (n - 1) * (cluster.latency + size / n / bandwidth) for size in work.bucket_bytes)
    return max(passes, sent) + slowest * work.optimizer_seconds
