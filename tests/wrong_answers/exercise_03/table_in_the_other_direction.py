"""The sign of the step is wrong."""

PART = "chunk_to_send"
SENTENCE = "From step to step the chunks change in the wrong direction"


def chunk_to_send(rank, step, ranks):
    return (rank + step) % ranks
