"""No rank differs in the star."""

PART = "sent_bytes"
SENTENCE = "In the star rank 0 differs from all others"


def chunks(elements, ranks):
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = elements * 2 - chunks(elements, ranks)[rank] - chunks(elements, ranks)[(rank + 1) % ranks]
    return sent * element_bytes
