"""Only full buckets are put away."""

PART = "fill_buckets"
SENTENCE = "The last bucket, which does not reach the limit, is missing"


def fill_buckets(sizes, bucket_bytes):
    buckets, bucket, held = [], [], 0
    for index in reversed(range(len(sizes))):
        bucket.append(index)
        held += sizes[index]
        if held >= bucket_bytes:
            buckets.append(bucket)
            bucket, held = [], 0
    return buckets
