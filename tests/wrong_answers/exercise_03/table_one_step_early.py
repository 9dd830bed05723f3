"""Steps counted from 2."""

PART = "chunk_to_send"
SENTENCE = "All is one step early"


def chunk_to_send(rank, step, ranks):
    return (rank - step - 1) % ranks
