"""The same chunk in both halves."""

PART = "sent_bytes"
SENTENCE = "Each half sends all chunks but one, and another chunk is left out here."


def chunks(elements, ranks):
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = 2 * (elements - chunks(elements, ranks)[rank])
    return sent * element_bytes
