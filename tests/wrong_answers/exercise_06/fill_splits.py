"""A parameter that does not fit goes on in the next bucket."""

PART = "fill_buckets"
SENTENCE = "A parameter is in several buckets"


def fill_buckets(sizes, bucket_bytes):
    buckets, room = [[]], bucket_bytes
    for index in reversed(range(len(sizes))):
        left = sizes[index]
        while left > 0:
            if room == 0:
                buckets.append([])
                room = bucket_bytes
            buckets[-1].append(index)
            put = min(left, room)
            left, room = left - put, room - put
    return buckets
