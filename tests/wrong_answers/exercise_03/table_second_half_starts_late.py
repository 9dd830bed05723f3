"""The second half is one chunk off."""

PART = "chunk_to_send"
SENTENCE = "The first half is right. The second half begins with step N"


def chunk_to_send(rank, step, ranks):
    return (rank - step + (step >= ranks)) % ranks
