"""At the ends the neighbour on the other side is taken, as at a wall."""

PART = "neighbours"
SENTENCE = "Only the ring's ends are wrong: rank 0 and rank N - 1 are neighbours of each other."


def neighbours(rank, ranks):
    if ranks == 1:
        return 0, 0
    return abs(rank - 1), ranks - 2 if rank == ranks - 1 else rank + 1
