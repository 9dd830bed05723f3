"""Ready when its last parameter is."""

PART = "bucket_times"
SENTENCE = "The gradient that comes last is not always that of the last parameter"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, ready[bucket[-1]])
        free = start + duration
        times.append((start, free))
    return times, max(0.0, free - backward_end)
