"""One too few."""

PART = "bucket_times"
SENTENCE = "There is one pair (start, end) for each bucket"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times[:-1], max(0.0, free - backward_end)
