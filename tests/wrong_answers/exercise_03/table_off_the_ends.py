"""The ring is not closed."""

PART = "chunk_to_send"
SENTENCE = "There is no such chunk: they go from 0 to N - 1"


def chunk_to_send(rank, step, ranks):
    return rank - step
