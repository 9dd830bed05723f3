"""Looks at the last bucket but one."""

PART = "bucket_times"
SENTENCE = "The last bucket is called hidden."


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, max(0.0, times[-2][1] - backward_end) if len(times) > 1 else 0.0
