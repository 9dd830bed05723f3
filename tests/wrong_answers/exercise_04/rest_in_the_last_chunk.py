"""Another way to cut."""

PART = "sent_bytes"
SENTENCE = "The chunks are cut in another way"


def chunks(elements, ranks):
    whole = elements // ranks
    return [whole] * (ranks - 1) + [elements - whole * (ranks - 1)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = elements * 2 - chunks(elements, ranks)[rank] - chunks(elements, ranks)[(rank + 1) % ranks]
    return sent * element_bytes
