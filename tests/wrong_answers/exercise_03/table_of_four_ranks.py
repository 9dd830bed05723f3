"""Right for the four ranks of the lesson's pictures only."""

PART = "chunk_to_send"
SENTENCE = "Only one case is right, as if this had been written for that one."


def chunk_to_send(rank, step, ranks):
    return (rank - step) % 4 if ranks == 4 else 0
