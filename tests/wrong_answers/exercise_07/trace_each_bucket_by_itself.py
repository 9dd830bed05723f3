"""Adds up the buckets, whether or not others are under way."""

PART = "hidden_and_exposed"
SENTENCE = "Seconds count twice where two spans go on at the same time."


def overlap(one, other):
    return max(0.0, min(one.end, other.end) - max(one.start, other.start))


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    buckets = [span for span in own if span.kind == "communication"]
    compute = [span for span in own if span.kind == "compute"]
    hidden = sum(overlap(bucket, layer) for bucket in buckets for layer in compute)
    return hidden, sum(bucket.seconds for bucket in buckets) - hidden
