"""No ring: rank 0 has no left neighbour, the last rank no right one."""

PART = "neighbours"
SENTENCE = "There is no such rank: they go from 0 to N - 1, and the ring closes between the two ends."


def neighbours(rank, ranks):
    return rank - 1, rank + 1
