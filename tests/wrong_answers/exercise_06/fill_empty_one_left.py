"""An empty bucket is made when one is full."""

PART = "fill_buckets"
SENTENCE = "An empty bucket is left over"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(sizes))):
        buckets[-1].append(index)
        held += sizes[index]
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
    return buckets
