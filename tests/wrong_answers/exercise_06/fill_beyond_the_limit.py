"""> in place of >=."""

PART = "fill_buckets"
SENTENCE = "A bucket that holds exactly as many bytes"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [], bucket_bytes + 1
    for index in reversed(range(len(sizes))):
        if held > bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets
