"""Named wrongly."""

PART = "causes"
SENTENCE = "then every rank would have the same gradient, N times too large"


def causes():
    return {"A": 2, "B": 4, "C": 8}
