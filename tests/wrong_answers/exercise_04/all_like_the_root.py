"""Every rank sends to all others."""

PART = "sent_bytes"
SENTENCE = "In the star only rank 0 has several messages to send"


def chunks(elements, ranks):
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = elements * 2 - chunks(elements, ranks)[rank] - chunks(elements, ranks)[(rank + 1) % ranks]
    return sent * element_bytes
