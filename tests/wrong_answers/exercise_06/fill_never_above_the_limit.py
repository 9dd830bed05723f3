"""Closes before it would overflow."""

PART = "fill_buckets"
SENTENCE = "Here a bucket never grows above the limit"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(sizes))):
        if buckets[-1] and held + sizes[index] > bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets
