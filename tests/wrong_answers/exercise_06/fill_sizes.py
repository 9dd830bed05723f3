"""Sizes in place of indices."""

PART = "fill_buckets"
SENTENCE = "These are sizes"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [], bucket_bytes
    for index in reversed(range(len(sizes))):
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(sizes[index])
        held += sizes[index]
    return buckets
