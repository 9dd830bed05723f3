"""Each rank starts with the chunk of its own number, as most texts draw it."""

PART = "chunk_to_send"
SENTENCE = "All is one step late: after the first half, rank r has the complete chunk r + 1"


def chunk_to_send(rank, step, ranks):
    return (rank - step + 1) % ranks
