"""The last rank only."""

PART = "busiest_direction"
SENTENCE = "Only the last rank is looked at"


def chunks(elements, ranks):
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = elements if rank else (ranks - 1) * elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = 2 * elements - chunks(elements, ranks)[rank] - chunks(elements, ranks)[(rank + 1) % ranks]
    return sent * element_bytes


def busiest_direction(algorithm, ranks, elements, element_bytes):
    sent = [sent_bytes(algorithm, rank, ranks, elements, element_bytes) for rank in range(ranks)]
    return sent[-1]
