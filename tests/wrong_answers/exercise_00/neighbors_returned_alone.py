"""One number in place of two."""

PART = "neighbors"
SENTENCE = "Two values are expected: first the one of the left side, then the one of the right side."


def neighbors(rank, ranks):
    return (rank - 1) % ranks
