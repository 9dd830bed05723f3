"""From the first parameter on."""

PART = "fill_buckets"
SENTENCE = "Gradients come in reverse"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [], bucket_bytes
    for index in range(len(sizes)):
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets
