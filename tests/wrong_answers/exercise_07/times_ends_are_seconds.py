"""Pairs of start and duration."""

PART = "bucket_times"
SENTENCE = "The starts are right, and the ends are not"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, duration))
    return times, max(0.0, free - backward_end)
