"""A large parameter gets a bucket for itself."""

PART = "fill_buckets"
SENTENCE = "A large parameter does not start a bucket"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(sizes))):
        if buckets[-1] and (held >= bucket_bytes or sizes[index] >= bucket_bytes):
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets
