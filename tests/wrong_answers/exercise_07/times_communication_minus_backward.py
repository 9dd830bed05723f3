"""What does not fit."""

PART = "bucket_times"
SENTENCE = "This is communication minus computing"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, max(0.0, sum(seconds) - backward_end)
