"""Takes the limit off, in place of beginning with 0."""

PART = "fill_buckets"
SENTENCE = "What a bucket has beyond the limit is counted in the next one"


def fill_buckets(sizes, bucket_bytes):
    buckets, total = [[]], 0
    for index in reversed(range(len(sizes))):
        buckets[-1].append(index)
        total += sizes[index]
        if total >= bucket_bytes:
            buckets.append([])
            total -= bucket_bytes
    return [bucket for bucket in buckets if bucket]
