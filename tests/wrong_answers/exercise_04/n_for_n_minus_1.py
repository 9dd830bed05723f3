"""N steps."""

PART = "sent_bytes"
SENTENCE = "There are N - 1 others, and N - 1 steps around the ring, not N"


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = ranks * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = ranks * elements
    else:
        sent = 2 * elements
    return sent * element_bytes
