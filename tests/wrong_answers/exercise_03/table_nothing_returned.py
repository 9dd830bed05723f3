"""Computed, and not returned."""

PART = "chunk_to_send"
SENTENCE = "The function returns None: it needs a `return`."


def chunk_to_send(rank, step, ranks):
    print((rank - step) % ranks)
