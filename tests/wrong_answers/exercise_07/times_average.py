"""The average wait."""

PART = "bucket_times"
SENTENCE = "All starts and ends are right, and the exposed seconds are not"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, max(0.0, free - backward_end) / (1 + len(buckets))
