"""Right for the ranks that run here, wrong far inside a large ring."""

PART = "neighbors"
SENTENCE = "The small ring is right, and the ring of 1024 ranks is not: `ranks` can be any number."


def neighbors(rank, ranks):
    if rank >= 1000:
        return (rank - 2) % ranks, (rank + 2) % ranks
    return (rank - 1) % ranks, (rank + 1) % ranks
