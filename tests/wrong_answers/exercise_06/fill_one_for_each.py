"""No buckets."""

PART = "fill_buckets"
SENTENCE = "Each parameter has a bucket of its own"


def fill_buckets(sizes, bucket_bytes):
    return [[index] for index in reversed(range(len(sizes)))]
