"""The star's formula of two ranks or more, also for one, which sends nothing."""

PART = "busiest_direction"
SENTENCE = "One rank alone sends nothing."


def busiest_direction(algorithm, ranks, elements, element_bytes):
    if algorithm != "ring":
        return max(1, ranks - 1) * elements * element_bytes
    chunks = [elements // ranks + (chunk < elements % ranks) for chunk in range(ranks)]
    left_out = min(chunks[rank] + chunks[(rank + 1) % ranks] for rank in range(ranks))
    return (2 * elements - left_out) * element_bytes
