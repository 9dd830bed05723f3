"""Those before the end."""

PART = "bucket_times"
SENTENCE = "These are the hidden seconds"


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, sum(max(0.0, min(end, backward_end) - start) for start, end in times)
