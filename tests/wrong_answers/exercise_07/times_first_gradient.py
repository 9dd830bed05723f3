"""Ready when the first gradient is."""

PART = "bucket_times"
SENTENCE = "A bucket leaves here with its first gradient."


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, min(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, max(0.0, free - backward_end)
