"""All ranks send the same chunk."""

PART = "chunk_to_send"
SENTENCE = "In each step all ranks send the same chunk"


def chunk_to_send(rank, step, ranks):
    return step % ranks
