"""Half of the communication is hidden, whatever it is."""

PART = "step_seconds"
SENTENCE = "so it is the queue"


def step_seconds(work, cluster):
    n, bandwidth, slowest = cluster.ranks, min(cluster.bandwidths), max(cluster.factors)
    passes = slowest * work.micro_batches * work.pass_seconds
    communication = sum(2 * (n - 1) * (cluster.latency + size / n / bandwidth) for size in work.bucket_bytes)
    return passes + communication / 2 + slowest * work.optimizer_seconds
