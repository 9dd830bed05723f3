"""All of it."""

PART = "bucket_times"
SENTENCE = "All of the communication is called exposed."


def bucket_times(buckets, ready, seconds, backward_end):
    times, free = [], 0.0
    for bucket, duration in zip(buckets, seconds, strict=True):
        start = max(free, max(ready[i] for i in bucket))
        free = start + duration
        times.append((start, free))
    return times, sum(seconds)
