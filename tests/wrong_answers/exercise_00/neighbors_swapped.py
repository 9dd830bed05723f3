"""Right first, then left."""

PART = "neighbors"
SENTENCE = "Left and right are swapped: rank r - 1 sits to the left of rank r."


def neighbors(rank, ranks):
    return (rank + 1) % ranks, (rank - 1) % ranks
