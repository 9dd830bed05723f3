"""A float for an index."""

PART = "chunk_to_send"
SENTENCE = "A chunk's number is expected, an `int`."


def chunk_to_send(rank, step, ranks):
    return float((rank - step) % ranks)
