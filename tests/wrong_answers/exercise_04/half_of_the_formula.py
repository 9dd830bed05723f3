"""(N-1)/N S."""

PART = "sent_bytes"
SENTENCE = "Only one half of the ring is counted:"


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = (ranks - 1) * elements // ranks
    return sent * element_bytes
