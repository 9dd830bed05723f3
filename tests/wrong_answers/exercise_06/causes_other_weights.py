"""Named wrongly."""

PART = "causes"
SENTENCE = "out of step after the first step, with all of their weights"


def causes():
    return {"A": 5, "B": 1, "C": 8}
