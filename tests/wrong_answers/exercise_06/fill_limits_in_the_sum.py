"""A bucket for each multiple of the limit."""

PART = "fill_buckets"
SENTENCE = "What a bucket has beyond the limit is counted in the next one"


def fill_buckets(sizes, bucket_bytes):
    buckets, total = {}, 0
    for index in reversed(range(len(sizes))):
        buckets.setdefault(int(total // bucket_bytes), []).append(index)
        total += sizes[index]
    return list(buckets.values())
