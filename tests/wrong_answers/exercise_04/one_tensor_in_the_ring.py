"""S, as in the star."""

PART = "sent_bytes"
SENTENCE = "The ring sends more than one tensor's worth"


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = elements
    return sent * element_bytes
