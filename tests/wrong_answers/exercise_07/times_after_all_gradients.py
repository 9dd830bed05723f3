"""When the backward pass is done."""

PART = "bucket_times"
SENTENCE = "All buckets wait here for the last gradient of all."


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for duration in seconds:
        start = max(free, max(ready))
        free = start + duration
        times.append((start, free))
    return times, max(0.0, free - backward_end)
