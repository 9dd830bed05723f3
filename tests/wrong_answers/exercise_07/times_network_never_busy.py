"""Each bucket starts when it is complete."""

PART = "bucket_times"
SENTENCE = "A bucket starts here while the one before it is still under way."


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(ready[i] for i in bucket)
        free = start + duration
        times.append((start, free))
    return times, max(0.0, free - backward_end)
