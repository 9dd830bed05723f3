"""At the ends the neighbor on the other side is taken, as at a wall."""

PART = "neighbors"
SENTENCE = "Only the ring's ends are wrong: rank 0 and rank N - 1 are neighbors of each other."
MOST_RANKS = 5  # fewer do not tell it from another mistake


def neighbors(rank, ranks):
    if ranks == 1:
        return 0, 0
    return abs(rank - 1), ranks - 2 if rank == ranks - 1 else rank + 1
