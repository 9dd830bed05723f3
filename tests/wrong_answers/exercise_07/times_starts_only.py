"""No ends."""

PART = "bucket_times"
SENTENCE = "Two things are expected: a list with a pair (start, end)"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append(start)
    return times, max(0.0, free - backward_end)
