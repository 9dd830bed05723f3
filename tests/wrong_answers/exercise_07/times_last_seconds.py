"""The last bucket's own seconds."""

PART = "bucket_times"
SENTENCE = "Only the last bucket's own seconds are counted as exposed."


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, seconds[-1]
