"""The second half of the ring only."""

PART = "sent_bytes"
SENTENCE = "Only one half of the ring is counted:"


def chunks(elements, ranks):
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = elements - chunks(elements, ranks)[(rank + 1) % ranks]
    return sent * element_bytes
