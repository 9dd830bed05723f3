"""Ascending in each bucket."""

PART = "fill_buckets"
SENTENCE = "but in forward order"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [], bucket_bytes
    for index in reversed(range(len(sizes))):
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return [sorted(bucket) for bucket in buckets]
