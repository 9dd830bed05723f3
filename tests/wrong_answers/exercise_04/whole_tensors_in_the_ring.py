"""The un-chunked ring's bytes."""

PART = "sent_bytes"
SENTENCE = "In the ring a message is one chunk, not the whole tensor."


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = (ranks - 1) * elements
    return sent * element_bytes
