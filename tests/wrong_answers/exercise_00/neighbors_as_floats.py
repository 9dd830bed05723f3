"""The right numbers as floats, which compare equal and are no ranks."""

PART = "neighbors"
SENTENCE = "These are the right numbers in another type: a rank is a whole number, an `int`."


def neighbors(rank, ranks):
    return float((rank - 1) % ranks), float((rank + 1) % ranks)
