"""The largest first."""

PART = "fill_buckets"
SENTENCE = "The parameters are sorted by size"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [[]], 0
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets
