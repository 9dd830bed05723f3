"""As many parameters in each bucket."""

PART = "fill_buckets"
SENTENCE = "buckets with equally many parameters"


def fill_buckets(sizes, bucket_bytes):
    number = max(1, -(-sum(sizes) // bucket_bytes))
    count = -(-len(sizes) // number)
    indices = list(reversed(range(len(sizes))))
    return [indices[i : i + count] for i in range(0, len(sizes), count)]
