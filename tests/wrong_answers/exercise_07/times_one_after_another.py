"""The first is complete, the others follow."""

PART = "bucket_times"
SENTENCE = "A bucket starts here as soon as the network is free"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = free or max(ready[i] for i in bucket)
        free = start + duration
        times.append((start, free))
    return times, max(0.0, free - backward_end)
