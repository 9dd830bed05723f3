"""Bucket by bucket."""

PART = "bucket_times"
SENTENCE = "and these times overlap: the step waits once"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, sum(max(0.0, end - backward_end) for _, end in times)
