"""No limit."""

PART = "fill_buckets"
SENTENCE = "the limit is not looked at"


def fill_buckets(sizes, bucket_bytes):
    return [list(range(len(sizes)))[::-1]]
