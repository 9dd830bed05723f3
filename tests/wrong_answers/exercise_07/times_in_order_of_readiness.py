"""Whichever bucket is complete first."""

PART = "bucket_times"
SENTENCE = "A bucket overtakes another one here."


def bucket_times(buckets, ready, seconds, backward_end):
    complete = [max(ready[i] for i in bucket) for bucket in buckets]
    times, free = {}, 0.0
    for number in sorted(range(len(buckets)), key=lambda number: complete[number]):
        start = max(free, complete[number])
        free = start + seconds[number]
        times[number] = (start, free)
    return [times[number] for number in range(len(buckets))], max(0.0, free - backward_end)
