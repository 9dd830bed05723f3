"""2(N-1)/N S as a float."""

PART = "sent_bytes"
SENTENCE = "Bytes are whole numbers, and this is a float"


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = 2 * (ranks - 1) / ranks * elements
    return sent * element_bytes
