"""Bits, as links are sold."""

PART = "sent_bytes"
SENTENCE = "This is in bits, and bytes are asked for"


def chunks(elements, ranks):
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = elements * 2 - chunks(elements, ranks)[rank] - chunks(elements, ranks)[(rank + 1) % ranks]
    return 8 * sent * element_bytes
