"""Bytes are never set back to 0."""

PART = "fill_buckets"
SENTENCE = "Bytes are counted on from bucket to bucket"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(sizes))):
        buckets[-1].append(index)
        held += sizes[index]
        if held >= bucket_bytes:
            buckets.append([])
    return [bucket for bucket in buckets if bucket]
