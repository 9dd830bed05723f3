"""No ring: rank 0 has no left neighbor, the last rank no right one."""

PART = "neighbors"
SENTENCE = "There is no such rank: they go from 0 to N - 1, and the ring closes between the two ends."


def neighbors(rank, ranks):
    return rank - 1, rank + 1
