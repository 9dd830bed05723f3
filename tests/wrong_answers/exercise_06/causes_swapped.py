"""Named wrongly."""

PART = "causes"
SENTENCE = "all would be right with K = 1"


def causes():
    return {"A": 4, "B": 5, "C": 8}
