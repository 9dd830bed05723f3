"""No lists in the list."""

PART = "fill_buckets"
SENTENCE = "A list of buckets is expected"


def fill_buckets(sizes, bucket_bytes):
    return list(range(len(sizes)))[::-1]
